// Trains a small GPT, Llama, BERT or LSTM for 20 to 300 steps and records everything that another framework
// needs to repeat the training.
//
//   gpt_trace CASE FOLDER [SEED [RANKS ZERO]]     RANKS are threads, ZERO a stage; default: one rank
//
// The cases lstm_text and lstm_short_text read the tokens of FOLDER/train.bin.
//
// FOLDER/CASE.safetensors holds "initial.<parameter>", "gradient.<parameter>" (step 1, before clipping),
// "final.<parameter>", "inputs" and "targets" [steps, samples, T] int32, for rows of documents also
// "key_bounds", "positions" and "types", and for LSTMs "logits" of the first micro-batch before step 1.
// FOLDER/CASE.json holds the configuration and the learning rate, loss and gradient norm of every step.
// gpt_parity.py reads both.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "parallel/comm/local.h"
#include "parallel/run/engine.h"
#include "runtime/base/error.h"
#include "runtime/data/document_dataset.h"
#include "runtime/data/masked_tokens.h"
#include "runtime/data/synthetic_tokens.h"
#include "runtime/data/token_dataset.h"
#include "runtime/optim/lr_schedule.h"
#include "tests/parity/tensor_record.h"
#include "tests/parity/trace_cases.h"
#include "tests/support/sample_documents.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/tiny_gpt.h"

namespace trireme {
namespace {

// Tensors of one file; joins the chunks of parameters.
class TraceFile {
 public:
  template <class T>
  void add(const std::string& name, const std::string& dtype, const std::vector<std::int64_t>& shape,
           const std::vector<T>& values) {
    record_.add(name, dtype, shape, std::as_bytes(std::span(values)));
  }
  /// Collects the chunks of a parameter, which must come in order, and joins them.
  void add(const std::string& prefix, const Engine& engine, const ParamSlot& slot, const Tensor& tensor) {
    const std::string name = prefix + whole_name(slot.slice, slot.name);
    const Shape whole = whole_shape(slot.slice, slot.shape);
    Whole& put =
        wholes_
            .try_emplace(name,
                         Whole{.values = std::vector<float>(static_cast<std::size_t>(whole.num_elems()))})
            .first->second;
    const std::vector<float> values = engine.context().to_host(tensor);
    for (std::int64_t at = 0; at < slot.shape.num_elems();) {
      const SliceRun run = run_from(slot.slice, slot.shape, at);
      std::copy_n(values.begin() + at, run.count, put.values.begin() + run.first_of_whole);
      at += run.count;
    }
    if (++put.chunks < slot.slice.chunks) return;
    std::vector<std::int64_t> shape;
    for (int dim = 0; dim < whole.rank(); ++dim) shape.push_back(whole.dim(dim));
    add(name, "F32", shape, put.values);
    wholes_.erase(name);
  }
  void write(const std::filesystem::path& path) const {
    TRIREME_CHECK(wholes_.empty(), "not all chunks of {} came", wholes_.begin()->first);
    record_.write(path);
  }

 private:
  struct Whole {
    std::vector<float> values;
    int chunks = 0;  // received so far
  };
  TensorRecord record_;
  std::map<std::string, Whole> wholes_;
};

void add_parameters(TraceFile& file, const std::string& prefix, const Engine& engine) {
  for (std::size_t g = 0; g < engine.layout().groups.size(); ++g) {
    const Tensor master =
        engine.parameters().whole(static_cast<int>(g), engine.parameters().master(static_cast<int>(g)));
    for (const ParamSlot& slot : engine.layout().groups[g].slots) {
      file.add(prefix, engine, slot, master.slice(slot.offset, slot.shape));
    }
  }
}

const ParamSlot& find_slot(const Engine& engine, const std::string& name) {
  for (const ParamGroup& group : engine.layout().groups) {
    const auto found = std::ranges::find(group.slots, name, &ParamSlot::name);
    if (found != group.slots.end()) return *found;
  }
  throw Error(ErrorCode::kRuntime, "there is no parameter '{}'", name);
}

// All samples of all steps: inputs and targets, [steps * samples, T].
struct Samples {
  HostBatch all;
  std::int64_t seq_len = 0;

  HostBatch read(std::int64_t first, std::int64_t count) const {
    const auto begin = first * seq_len, end = (first + count) * seq_len;
    constexpr std::int64_t kBytes = sizeof(std::int32_t);
    HostBatch batch{.input_shape = {count, seq_len},
                    .target_shape = {count, seq_len},
                    .inputs = {all.inputs.begin() + begin * kBytes, all.inputs.begin() + end * kBytes},
                    .targets = {all.targets.begin() + begin, all.targets.begin() + end}};
    const DocumentRows& d = all.documents;
    if (d.empty()) return batch;
    batch.documents = {.key_bounds = {d.key_bounds.begin() + 2 * begin, d.key_bounds.begin() + 2 * end},
                       .positions = {d.positions.begin() + begin, d.positions.begin() + end},
                       .types = {d.types.begin() + begin, d.types.begin() + end}};
    return batch;
  }
  std::int64_t count_targets(std::int64_t first, std::int64_t count) const {
    return std::ranges::count_if(read(first, count).targets, [](std::int32_t t) { return t >= 0; });
  }
};

HostBatch first_samples(const Case& c, std::int64_t count) {
  const std::int64_t vocab = c.model.vocab, length = c.model.seq_len;
  if (!c.bert) return testing::token_source(vocab, length, 0)(0, count);
  const testing::TemporaryFolder folder;
  std::shared_ptr<const Dataset> tokens;
  if (c.rows == Rows::kFull) {
    tokens = std::make_shared<SyntheticTokens>(SyntheticTokens::Options{
        .num_samples = count, .sequence_length = length, .vocab_size = vocab, .seed = c.seed});
  } else {
    using Targets = DocumentDataset::Targets;
    const testing::SampleDocuments documents{
        .count = 211, .max_tokens = 37, .vocab = static_cast<std::int32_t>(vocab - 1)};
    tokens = std::make_shared<DocumentDataset>(
        DocumentDataset::Options{.path = testing::write_sample_documents(folder / "train.bin", documents),
                                 .sequence_length = length,
                                 .pack = c.rows == Rows::kPacked,
                                 .class_token = static_cast<std::int32_t>(vocab - 1),
                                 .targets = c.bert->classes > 0 ? Targets::kLabels : Targets::kTokens,
                                 .seed = c.seed});
  }
  if (c.bert->classes > 0) return tokens->read_train(0, count);
  return MaskedTokens({.tokens = tokens,
                       .seed = c.seed,
                       .mask_token = static_cast<std::int32_t>(vocab - 1),
                       .vocab_size = vocab})
      .read_train(0, count);
}

// So few samples that they repeat, and the loss decreases with any optimizer.
Samples make_samples(const Case& c, std::int64_t count, const std::filesystem::path& folder) {
  const std::int64_t distinct = 4 * c.micro_batch * c.accumulation;
  Samples samples{.seq_len = c.model.seq_len};
  if (c.reads_text) {
    const TokenDataset text({.path = folder / "train.bin",
                             .sequence_length = c.model.seq_len,
                             .seed = c.seed,
                             .vocab_size = c.model.vocab});
    samples.all = text.read_train(0, count);
    return samples;
  }
  for (std::int64_t first = 0; first < count; first += distinct) {
    const HostBatch some = first_samples(c, std::min(distinct, count - first));
    samples.all.inputs.insert(samples.all.inputs.end(), some.inputs.begin(), some.inputs.end());
    samples.all.targets.insert(samples.all.targets.end(), some.targets.begin(), some.targets.end());
    DocumentRows& documents = samples.all.documents;
    const DocumentRows& more = some.documents;
    documents.key_bounds.insert(documents.key_bounds.end(), more.key_bounds.begin(), more.key_bounds.end());
    documents.positions.insert(documents.positions.end(), more.positions.begin(), more.positions.end());
    documents.types.insert(documents.types.end(), more.types.begin(), more.types.end());
  }
  for (std::size_t i = 0; c.ignore_every > 0 && i < samples.all.targets.size();
       i += static_cast<std::size_t>(c.ignore_every)) {
    samples.all.targets[i] = -1;
  }
  return samples;
}

nlohmann::json describe(const Case& c, const LrSchedule& lr) {
  const bool adamw = c.optimizer.kind == OptimizerConfig::Kind::kAdamW;
  nlohmann::json llama;
  if (c.llama) {
    llama = {{"kv_heads", c.llama->kv_heads},
             {"rope_theta", c.llama->rope_theta},
             {"rope_factor", c.llama->rope_scaling.factor},
             {"rope_original_context", c.llama->rope_scaling.original_context}};
  }
  return {{"llama", llama},
          {"lstm", c.lstm.has_value()},
          {"bert", c.bert.has_value()},
          {"classes", c.bert ? c.bert->classes : 0},
          {"layers", c.model.layers},
          {"hidden", c.model.hidden},
          {"heads", c.model.heads},
          {"vocab", c.model.vocab},
          {"seq_len", c.model.seq_len},
          {"precision", name(c.precision.mode())},
          {"tied", c.model.tied},
          {"micro_batch", c.micro_batch},
          {"accumulation", c.accumulation},
          {"ranks", c.ranks},
          {"zero", c.zero},
          {"optimizer", adamw ? "adamw" : "sgd"},
          {"weight_decay", c.optimizer.weight_decay},
          {"betas", {c.optimizer.beta1, c.optimizer.beta2}},
          {"epsilon", c.optimizer.epsilon},
          {"momentum", c.optimizer.momentum},
          {"grad_clip", c.grad_clip},
          {"peak_lr", lr.peak},
          {"floor_lr", lr.floor},
          {"warmup_steps", lr.warmup_steps},
          {"total_steps", lr.total_steps},
          {"steps", nlohmann::json::array()}};
}

void trace(const Case& c, const std::shared_ptr<Communicator>& comm, const std::filesystem::path& stem) {
  const std::int64_t global_batch = c.micro_batch * c.accumulation;
  Engine engine(build(c), comm,
                {.threads = 2,
                 .global_batch = global_batch,
                 .micro_batch = c.micro_batch,
                 .seed = c.seed,
                 .optimizer = c.optimizer,
                 .grad_clip = c.grad_clip,
                 .layout = {.zero = static_cast<ZeroStage>(c.zero)},
                 .precision = c.precision});
  const LrSchedule lr{.kind = LrSchedule::Kind::kCosine,
                      .peak = c.peak_lr,
                      .floor = c.peak_lr / 10,
                      .warmup_steps = 4,
                      .total_steps = c.steps};
  const Samples samples = make_samples(c, c.steps * global_batch, stem.parent_path());
  TraceFile file;
  const std::vector<std::int64_t> batch_shape{c.steps, global_batch, c.model.seq_len};
  file.add("inputs", "I32", batch_shape, samples.all.inputs);
  file.add("targets", "I32", batch_shape, samples.all.targets);
  const DocumentRows& documents = samples.all.documents;
  if (!documents.empty()) {
    file.add("key_bounds", "I32", {c.steps, global_batch, c.model.seq_len, 2}, documents.key_bounds);
    file.add("positions", "I32", batch_shape, documents.positions);
    file.add("types", "I32", batch_shape, documents.types);
  }
  add_parameters(file, "initial.", engine);
  if (c.lstm) {
    const Tensor logits = engine.infer(samples.read(0, c.micro_batch));
    file.add("logits", "F32", {c.micro_batch, c.model.seq_len, c.model.vocab},
             engine.context().to_host(logits));
  }
  engine.observe_gradients([&](const std::string& name, const Tensor& gradient) {
    if (engine.steps_done() == 0) file.add("gradient.", engine, find_slot(engine, name), gradient);
  });

  nlohmann::json report = describe(c, lr);
  for (std::int64_t step = 0; step < c.steps; ++step) {
    const std::int64_t start = step * global_batch;
    const BatchSource source = [&](std::int64_t first, std::int64_t count) {
      return samples.read(start + first, count);
    };
    const StepResult result = engine.step(source, samples.count_targets(start, global_batch), lr.at(step));
    report["steps"].push_back({{"lr", lr.at(step)}, {"loss", result.loss}, {"grad_norm", result.grad_norm}});
  }
  add_parameters(file, "final.", engine);
  if (comm->rank() != 0) return;
  file.write(stem.string() + ".safetensors");
  std::ofstream(stem.string() + ".json") << report.dump(1) << "\n";
}

}  // namespace
}  // namespace trireme

int main(int argc, char** argv) {
  using namespace trireme;
  if (argc != 3 && argc != 4 && argc != 6) {
    fmt::print(stderr, "usage: gpt_trace CASE FOLDER [SEED [RANKS ZERO]]\n");
    return 2;
  }
  try {
    Case c = find_case(argv[1]);
    if (argc >= 4) c.seed = std::stoull(argv[3]);
    if (argc == 6) {
      c.ranks = std::stoi(argv[4]);
      c.zero = std::stoi(argv[5]);
    }
    const std::filesystem::path stem = std::filesystem::path(argv[2]) / argv[1];
    run_local_ranks(c.ranks, [&](const std::shared_ptr<Communicator>& comm) { trace(c, comm, stem); });
  } catch (const std::exception& e) {
    fmt::print(stderr, "gpt_trace: {}\n", e.what());
    return 1;
  }
  return 0;
}
