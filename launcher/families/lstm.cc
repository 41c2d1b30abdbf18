// LSTM language models.
#include "models/lstm.h"

#include <algorithm>
#include <set>

#include "launcher/data/token_data.h"
#include "launcher/families/model_family.h"
#include "launcher/families/token_model.h"
#include "runtime/base/error.h"
#include "runtime/checkpoint/safetensors_reader.h"
#include "runtime/checkpoint/tensor_names.h"

namespace trireme {
namespace {

constexpr std::string_view kNames[] = {"lstm"};
constexpr std::string_view kKeys[] = {"size",  "layers",  "hidden",  "embedding_size",
                                      "vocab", "seq_len", "dropout", "tied"};

/// The starting point of fill_in() if model.size is empty.
constexpr LstmConfig kUnsized{.layers = 0, .hidden = 0, .embedding_size = 0, .vocab = 0, .seq_len = 0};

LstmConfig sized(const ModelSection& model) {
  return model.size.empty() ? kUnsized : lstm_config_for_size(model.size);
}

/// The width of the embedding: of the job, else `hidden` if the job has it, else of the size.
std::int64_t embedding_size(const ModelSection& model) {
  if (model.embedding_size > 0) return model.embedding_size;
  return model.hidden > 0 ? model.hidden : sized(model).embedding_size;
}

void check(const ModelSection& model) {
  TRIREME_CHECK(!model.size.empty() || (model.layers > 0 && model.hidden > 0 && model.seq_len > 0),
                "the model has no shape: give model.size, or all of model.layers = {}, model.hidden = {} and "
                "model.seq_len = {}",
                model.layers, model.hidden, model.seq_len);
  const std::int64_t hidden = model.hidden > 0 ? model.hidden : sized(model).hidden;
  TRIREME_CHECK(
      !model.tied.value_or(false) || embedding_size(model) == hidden,
      "model.tied = true needs an embedding as wide as the layers, but model.embedding_size = {} and "
      "model.hidden = {}: set model.embedding_size = {}",
      embedding_size(model), hidden, hidden);
}

void fill_in(JobConfig& config) {
  ModelSection& model = config.model;
  const LstmConfig base = sized(model);
  const auto fill = [](std::int64_t& number, std::int64_t value) {
    if (number == 0) number = value;
  };
  model.embedding_size = embedding_size(model);
  fill(model.layers, base.layers);
  fill(model.hidden, base.hidden);
  fill(model.vocab, base.vocab);
  fill(model.seq_len, base.seq_len);
  if (model.vocab == 0) model.vocab = vocab_of_data(config.data);
  if (!model.tied) model.tied = false;
}

BlockList build(const ModelSection& model) {
  return build_lstm({.layers = model.layers,
                     .hidden = model.hidden,
                     .embedding_size = model.embedding_size,
                     .vocab = model.vocab,
                     .seq_len = model.seq_len,
                     .dropout = static_cast<float>(model.dropout),
                     .tied = *model.tied});
}

std::string describe(const JobConfig& config) {
  const ModelSection& model = config.model;
  return fmt::format("{} layers, {} wide, embedding {}, vocabulary {}, samples of {} tokens", model.layers,
                     model.hidden, model.embedding_size, model.vocab, model.seq_len);
}

/// "weight_hh_l0" of "rnn.weight_hh_l0".
std::string last_part(const std::string& name) {
  return name.substr(name.rfind('.') + 1);
}

/// A name of torch.nn.LSTM that shows the settings of the module.
void check_torch_name(const std::string& place, const SafetensorsTensor& tensor, const std::string& name) {
  TRIREME_CHECK(!name.ends_with("_reverse"),
                "{}: tensor '{}' is of a bidirectional LSTM (bidirectional=True), and this model has one "
                "direction: use weights of nn.LSTM with bidirectional=False",
                place, tensor.name);
  TRIREME_CHECK(!name.starts_with("weight_hr_l"),
                "{}: tensor '{}' is of an LSTM with projections (proj_size), which this build does not have: "
                "use weights of nn.LSTM with proj_size=0",
                place, tensor.name);
}

void check_torch_shape(const ModelSection& model, const std::string& place, const SafetensorsTensor& tensor,
                       const std::string& name) {
  if (!name.starts_with("weight_hh_l") || tensor.shape.size() != 2) return;
  constexpr std::uint64_t kGates = 4;
  const auto rows = static_cast<std::uint64_t>(tensor.shape[0]),
             units = static_cast<std::uint64_t>(tensor.shape[1]);
  TRIREME_CHECK(rows == kGates * units,
                "{}: tensor '{}' is [{}, {}], but an LSTM has 4 gates, so {} rows for {} units; nn.GRU has 3 "
                "gates and nn.RNN has 1",
                place, tensor.name, rows, units, kGates * units, units);
  TRIREME_CHECK(units == static_cast<std::uint64_t>(model.hidden),
                "{}: tensor '{}' has {} units (hidden_size), but model.hidden = {}: set model.hidden = {}",
                place, tensor.name, units, model.hidden, units);
}

void check_weights(const ModelSection& model, const SafetensorsReader& file) {
  const std::string place = file.path().string();
  std::set<std::string> changes, names;
  std::int64_t layers = 0;
  // Names first: projections change the shape of weight_hh, too.
  for (const SafetensorsTensor& tensor : file.tensors()) {
    const std::string name = plain_tensor_name(tensor.name, changes);
    names.insert(name);
    check_torch_name(place, tensor, last_part(name));
  }
  for (const SafetensorsTensor& tensor : file.tensors()) {
    const std::string last = last_part(plain_tensor_name(tensor.name, changes));
    check_torch_shape(model, place, tensor, last);
    layers += last.starts_with("weight_hh_l") ? 1 : 0;
  }
  TRIREME_CHECK(layers == 0 || layers == model.layers,
                "{}: the file has {} LSTM layers (num_layers), but model.layers = {}: set model.layers = {}",
                place, layers, model.layers, layers);
  const bool has_head = names.contains("decoder.weight");
  TRIREME_CHECK(
      !*model.tied || !has_head,
      "{}: tensor 'decoder.weight' is a separate head, but model.tied = true: remove the tensor if it "
      "equals 'encoder.weight', or set model.tied = false",
      place);
  TRIREME_CHECK(
      *model.tied || has_head || !names.contains("encoder.weight"),
      "{}: there is no tensor 'decoder.weight': set model.tied = true if 'encoder.weight' is the head's "
      "weight, too",
      place);
}

}  // namespace

extern constexpr ModelFamily kLstmFamily{
    .plural = "LSTMs",
    .names = kNames,
    .sizes = kLstmSizes,
    .keys = kKeys,
    .data = kTokenData,
    .writes_text = true,
    .is_recurrent = true,
    .tensor_obstacle =
        "each token needs the whole state of the token before, which ranks would have to exchange",
    .check = check,
    .fill_in = fill_in,
    .build = build,
    .describe = describe,
    .variant = tied_variant,
    .check_weights = check_weights};

}  // namespace trireme
