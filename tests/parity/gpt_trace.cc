// Trains a small GPT, Llama or BERT for 20 or 50 steps and records everything that another framework needs to
// repeat the training.
//
//   gpt_trace CASE FOLDER [SEED [RANKS ZERO]]     RANKS are threads, ZERO a stage; default: one rank
//
// FOLDER/CASE.safetensors holds "initial.<parameter>", "gradient.<parameter>" (step 1, before clipping),
// "final.<parameter>", "inputs" and "targets" [steps, samples, T] int32, and for rows of documents also
// "key_bounds", "positions" and "types". FOLDER/CASE.json holds the configuration and the learning rate, loss
// and gradient norm of every step. gpt_parity.py reads both.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "models/bert.h"
#include "models/gpt.h"
#include "models/llama.h"
#include "parallel/comm/local.h"
#include "parallel/run/engine.h"
#include "runtime/base/error.h"
#include "runtime/checkpoint/safetensors_writer.h"
#include "runtime/data/document_dataset.h"
#include "runtime/data/masked_tokens.h"
#include "runtime/data/synthetic_tokens.h"
#include "runtime/optim/lr_schedule.h"
#include "tests/support/sample_documents.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/tiny_gpt.h"

namespace trireme {
namespace {

enum class Rows { kFull, kPadded, kPacked };

struct Case {
  GptConfig model;
  std::optional<LlamaConfig> llama;  // trained instead of a GPT, with the sizes of `model`
  std::optional<BertConfig> bert;    // likewise, on masked tokens, or on labels if it has classes
  Rows rows = Rows::kFull;           // rows of BERT's tokens
  Precision precision;
  std::int64_t steps = 20;
  std::uint64_t seed = 11;
  std::int64_t micro_batch = 4;
  std::int64_t accumulation = 2;  // micro-batches per step, over all ranks
  int ranks = 1, zero = 0;
  OptimizerConfig optimizer;
  double peak_lr = 3e-3;
  float grad_clip = 1.0f;
  int ignore_every = 0;  // ignores every n-th target; 0: none
};

Case find_case(const std::string& name) {
  const GptConfig small{.layers = 3, .hidden = 64, .heads = 4, .vocab = 257, .seq_len = 32};
  // Sizes that are not multiples of a kernel's tile: heads of 7, rows of 3 x 21.
  const GptConfig odd{.layers = 2, .hidden = 42, .heads = 6, .vocab = 101, .seq_len = 21};
  const GptConfig in_chunks{
      .layers = 3, .hidden = 64, .heads = 8, .vocab = 264, .seq_len = 32, .tensor_chunks = 8};
  const OptimizerConfig adamw{.weight_decay = 0.1f, .beta2 = 0.99f};
  const OptimizerConfig sgd{
      .kind = OptimizerConfig::Kind::kSgd, .weight_decay = 0.1f, .momentum = 0.9f, .nesterov = false};
  const Precision bf16(PrecisionMode::kBf16);
  // With a context of 12, some pairs are kept, some are slowed, and some are in between.
  const ops::RopeScaling kStretched{.factor = 4.0, .original_context = 12};
  const std::map<std::string, Case> cases{
      {"adamw", {.model = small, .optimizer = adamw}},
      {"odd_sizes",
       {.model = odd, .micro_batch = 3, .accumulation = 3, .optimizer = adamw, .ignore_every = 5}},
      {"untied_head", {.model = small, .optimizer = adamw}},
      {"bf16_autocast", {.model = small, .precision = bf16, .steps = 50, .optimizer = adamw}},
      {"llama", {.model = small, .llama = LlamaConfig{.kv_heads = 2, .ffn = 176}, .optimizer = adamw}},
      {"llama_scaled_rope",
       {.model = {.layers = 2, .hidden = 42, .heads = 3, .vocab = 101, .seq_len = 21},
        .llama = LlamaConfig{.kv_heads = 1, .ffn = 75, .rope_theta = 50.0, .rope_scaling = kStretched},
        .micro_batch = 3,
        .accumulation = 3,
        .optimizer = adamw,
        .grad_clip = 0.5f,
        .ignore_every = 5}},
      {"tensor_chunks", {.model = in_chunks, .optimizer = adamw}},
      {"llama_chunks",
       {.model = small,
        .llama = LlamaConfig{.kv_heads = 2, .ffn = 176, .tensor_chunks = 2},
        .optimizer = adamw}},
      {"bert", {.model = small, .bert = BertConfig{}, .optimizer = adamw}},
      {"bert_padded",
       {.model = odd, .bert = BertConfig{}, .rows = Rows::kPadded, .micro_batch = 3, .optimizer = adamw}},
      {"bert_packed", {.model = small, .bert = BertConfig{}, .rows = Rows::kPacked, .optimizer = adamw}},
      {"bert_classes",
       {.model = small,
        .bert = BertConfig{.classes = 3},
        .rows = Rows::kPadded,
        .optimizer = adamw,
        .grad_clip = 0.3f}},
      {"bert_packed_classes",
       {.model = odd,
        .bert = BertConfig{.classes = 3},
        .rows = Rows::kPacked,
        .optimizer = adamw,
        .grad_clip = 0.3f}},
      {"bert_chunks",
       {.model = small, .bert = BertConfig{.tensor_chunks = 4}, .rows = Rows::kPacked, .optimizer = adamw}},
      {"sgd_momentum", {.model = small, .optimizer = sgd, .peak_lr = 0.1}},
  };
  const auto found = cases.find(name);
  TRIREME_CHECK(
      found != cases.end(),
      "there is no case '{}': use adamw, odd_sizes, untied_head, sgd_momentum, bf16_autocast, llama, "
      "llama_scaled_rope, llama_chunks, tensor_chunks, bert, bert_padded, bert_packed, bert_classes, "
      "bert_packed_classes or bert_chunks",
      name);
  Case result = found->second;
  result.model.tied = name != "untied_head" && name != "llama" && name != "llama_chunks";
  if (result.llama) {
    result.llama->layers = result.model.layers;
    result.llama->hidden = result.model.hidden;
    result.llama->heads = result.model.heads;
    result.llama->vocab = result.model.vocab;
    result.llama->seq_len = result.model.seq_len;
    result.llama->tied = result.model.tied;
  }
  if (result.bert) {
    result.bert = BertConfig{.layers = result.model.layers,
                             .hidden = result.model.hidden,
                             .heads = result.model.heads,
                             .vocab = result.model.vocab,
                             .seq_len = result.model.seq_len,
                             .classes = result.bert->classes,
                             .tensor_chunks = result.bert->tensor_chunks};
  }
  return result;
}

BlockList build(const Case& c) {
  if (c.bert) return build_bert(*c.bert);
  return c.llama ? build_llama(*c.llama) : build_gpt(c.model);
}

// Tensors of one file, kept in memory until it is written.
class TraceFile {
 public:
  template <class T>
  void add(std::string name, std::string dtype, const std::vector<std::int64_t>& shape,
           const std::vector<T>& values) {
    entries_.push_back({.name = std::move(name), .dtype = std::move(dtype), .shape = shape});
    const std::span<const std::byte> bytes = std::as_bytes(std::span(values));
    data_.insert(data_.end(), bytes.begin(), bytes.end());
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
    SafetensorsWriter writer(path, entries_);
    writer.append(data_);
    writer.commit();
  }

 private:
  struct Whole {
    std::vector<float> values;
    int chunks = 0;  // received so far
  };
  std::vector<SafetensorsEntry> entries_;
  std::vector<std::byte> data_;
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
Samples make_samples(const Case& c, std::int64_t count) {
  const std::int64_t distinct = 4 * c.micro_batch * c.accumulation;
  Samples samples{.seq_len = c.model.seq_len};
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
  const Samples samples = make_samples(c, c.steps * global_batch);
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
