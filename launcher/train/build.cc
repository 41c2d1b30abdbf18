#include "launcher/train/build.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "launcher/train/image_data.h"
#include "models/resnet.h"
#include "parallel/foresee/block_work.h"
#include "parallel/foresee/stage_cut.h"
#include "parallel/layout/stage_map.h"
#include "runtime/base/error.h"
#include "runtime/checkpoint/hash.h"
#include "runtime/data/synthetic_tokens.h"
#include "runtime/data/token_dataset.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

// A pass over synthetic data; its training samples never repeat, whatever the pass.
constexpr std::int64_t kSyntheticSamples = 1024;

std::int64_t vocab_of_data(const DataSection& data) {
  const auto prepared = data.kind == "tokens" ? find_prepared_data(data.train) : std::nullopt;
  TRIREME_CHECK(
      prepared,
      "model.vocab is not known: give it, or model.size, or data.train = a folder that `trireme data "
      "text` wrote (data.train = \"{}\" has no {})",
      data.train, DatasetInfo::kFileName);
  return prepared->info.vocab_size;
}

/// Where the tokens of data.train or data.eval are: of a prepared folder, the file that belongs to the key.
fs::path shards_of(const std::string& path, const char* prepared_name) {
  const bool prepared = fs::is_directory(path) && fs::exists(fs::path(path) / DatasetInfo::kFileName);
  return prepared ? fs::path(path) / prepared_name : fs::path(path);
}

std::string fingerprint_of(const TokenDataset& tokens) {
  ByteHash hash;
  for (const TokenFile& shard : tokens.shards()) hash.update(std::as_bytes(shard.tokens()));
  return fmt::format("{} tokens in {} file(s), hash {:016x}", tokens.num_tokens(), tokens.num_shards(),
                     hash.value());
}

std::shared_ptr<const Dataset> open_tokens(const JobConfig& config, const char* key, const fs::path& path,
                                           std::string* fingerprint) {
  try {
    const auto tokens = std::make_shared<TokenDataset>(
        TokenDataset::Options{.path = path,
                              .sequence_length = config.model.seq_len,
                              .seed = static_cast<std::uint64_t>(config.train.seed),
                              .vocab_size = config.model.vocab});
    if (fingerprint != nullptr) {
      tokens->check_vocab(config.model.vocab);
      *fingerprint += fmt::format("{}: {}\n", key, fingerprint_of(*tokens));
    }
    return tokens;
  } catch (const Error& error) {
    throw Error(error.code(), fmt::format("{}: {}", key, error.what()), error.where());
  }
}

std::shared_ptr<const Dataset> synthetic_tokens(const JobConfig& config) {
  return std::make_shared<SyntheticTokens>(
      SyntheticTokens::Options{.num_samples = kSyntheticSamples,
                               .sequence_length = config.model.seq_len,
                               .vocab_size = config.model.vocab,
                               .seed = static_cast<std::uint64_t>(config.train.seed)});
}

// A loss over tokens of another vocabulary would mean nothing.
void check_same_tokenizer(const DataSection& data) {
  const auto train = find_prepared_data(data.train), eval = find_prepared_data(data.eval);
  if (!train || !eval) return;  // plain token files do not say
  TRIREME_CHECK(
      train->info.tokenizer == eval->info.tokenizer && train->info.vocab_size == eval->info.vocab_size,
      "data.eval = \"{}\" was made with the tokenizer {} of {} tokens, data.train = \"{}\" with {} of {}: "
      "prepare both with the same --tokenizer",
      data.eval, eval->info.tokenizer, eval->info.vocab_size, data.train, train->info.tokenizer,
      train->info.vocab_size);
}

OptimizerConfig optimizer_config(const OptimizerSection& section) {
  return {.kind = section.name == "sgd" ? OptimizerConfig::Kind::kSgd : OptimizerConfig::Kind::kAdamW,
          .weight_decay = static_cast<float>(section.weight_decay),
          .beta1 = static_cast<float>(section.betas[0]),
          .beta2 = static_cast<float>(section.betas[1]),
          .epsilon = static_cast<float>(section.epsilon),
          .momentum = static_cast<float>(section.momentum),
          .nesterov = section.nesterov};
}

LossScaleConfig loss_scale_config(const PrecisionSection& section) {
  LossScaleConfig config{.initial = static_cast<float>(section.scale_init),
                         .growth_factor = static_cast<float>(section.scale_growth),
                         .backoff_factor = static_cast<float>(section.scale_backoff),
                         .growth_interval = static_cast<std::int32_t>(section.scale_interval)};
  if (section.mode != "fp16" || section.loss_scale == "off") return config;  // kOff
  config.kind = LossScaleConfig::Kind::kDynamic;
  if (const auto scale = static_loss_scale(section)) {
    config.kind = LossScaleConfig::Kind::kStatic;
    config.initial = static_cast<float>(*scale);
  }
  return config;
}

PipelineSchedule schedule_of(const std::string& text) {
  using enum PipelineSchedule;
  for (const PipelineSchedule schedule : {kGpipe, kOneForwardOneBackward, kInterleaved, kZeroBubbleH1}) {
    if (text == name(schedule)) return schedule;
  }
  throw Error(ErrorCode::kInvalidInput, fmt::format("parallel.schedule = \"{}\" is not known", text));
}

}  // namespace

Precision build_precision(const PrecisionSection& section) {
  const auto mode = find_precision_mode(section.mode);
  TRIREME_CHECK(mode, "precision.mode = \"{}\" is not known", section.mode);
  Precision precision(*mode);
  for (const auto& [op, text] : section.ops) precision.override_op(*find_op(op), *find_precision_mode(text));
  precision.grad_dtype = section.grad_dtype == "compute" ? precision.compute_dtype()
                         : section.grad_dtype == "fp16"  ? DType::kFloat16
                         : section.grad_dtype == "bf16"  ? DType::kBFloat16
                                                         : DType::kFloat32;
  return precision;
}

std::optional<PreparedData> find_prepared_data(const fs::path& path) {
  const fs::path folder = fs::is_directory(path) ? path : path.parent_path();
  if (!fs::exists(folder / DatasetInfo::kFileName)) return std::nullopt;
  return PreparedData{folder, read_dataset_info(folder)};
}

JobConfig resolve(JobConfig config) {
  ModelSection& model = config.model;
  if (const auto resnet = find_resnet_config(model.name)) {
    if (model.classes == 0) model.classes = resnet->classes;
    if (config.data.image_size == 0) config.data.image_size = default_image_size(model);
    check_config(config);
    return config;
  }
  const auto fill = [](std::int64_t& number, std::int64_t value) {
    if (number == 0) number = value;
  };
  if (!model.size.empty()) {
    const GptConfig sized = gpt_config_for_size(model.size);
    fill(model.layers, sized.layers);
    fill(model.hidden, sized.hidden);
    fill(model.heads, sized.heads);
    fill(model.vocab, sized.vocab);
    fill(model.seq_len, sized.seq_len);
  }
  if (model.vocab == 0) model.vocab = vocab_of_data(config.data);
  check_config(config);
  const bool cuts = config.parallel.pipeline > 1 && config.parallel.pipeline_cut != "measured";
  if (cuts) pipeline_cut(config, *build_blocks(model));  // refuses what cannot be cut
  return config;
}

std::shared_ptr<const BlockList> build_blocks(const ModelSection& model) {
  if (auto resnet = find_resnet_config(model.name)) {
    resnet->classes = model.classes;
    resnet->label_smoothing = static_cast<float>(model.label_smoothing);
    return std::make_shared<const BlockList>(build_resnet(*resnet));
  }
  return std::make_shared<const BlockList>(build_gpt({.layers = model.layers,
                                                      .hidden = model.hidden,
                                                      .heads = model.heads,
                                                      .vocab = model.vocab,
                                                      .seq_len = model.seq_len,
                                                      .dropout = static_cast<float>(model.dropout),
                                                      .tied = model.tied}));
}

std::vector<int> pipeline_cut(const JobConfig& config, const BlockList& blocks) {
  const ParallelSection& parallel = config.parallel;
  if (parallel.pipeline == 1) return {};
  TRIREME_CHECK(parallel.pipeline_cut != "measured",
                "parallel.pipeline_cut = \"measured\": nothing has measured it (see chosen_cut)");
  const StageCounts counts{.num_units = static_cast<int>(blocks.size()),
                           .pipeline = static_cast<int>(parallel.pipeline),
                           .chunks = static_cast<int>(parallel.chunks)};
  if (const auto listed = listed_cut(parallel.pipeline_cut)) {
    std::vector<int> first_units;
    for (const std::int64_t first : *listed) {
      first_units.push_back(static_cast<int>(std::min<std::int64_t>(first, std::numeric_limits<int>::max())));
    }
    return StageMap::given(counts, first_units).first_units();
  }
  if (parallel.pipeline_cut == "blocks") return StageMap::even(counts).first_units();
  const std::vector<double> costs = parallel.pipeline_cut == "parameters"
                                        ? parameter_costs(blocks)
                                        : work_costs(blocks, sample_spec(config));
  return cut_evenly(costs, counts.pipeline, counts.chunks).first_units();
}

PlannedJob planned_job(const JobConfig& config, std::shared_ptr<const BlockList> blocks, int num_ranks) {
  return {std::move(blocks), engine_options(config), sample_spec(config), num_ranks};
}

EngineOptions engine_options(const JobConfig& config) {
  const std::int64_t limit = config.parallel.memory_limit;
  return {
      .device = {DeviceType::kCpu, 0},
      .threads = static_cast<int>(std::max<std::int64_t>(1, config.parallel.threads)),
      .memory_limit = limit > 0 ? std::optional(limit) : std::nullopt,
      .global_batch = config.train.global_batch,
      .micro_batch = config.train.micro_batch,
      .seed = static_cast<std::uint64_t>(config.train.seed),
      .optimizer = optimizer_config(config.optimizer),
      .grad_clip = static_cast<float>(config.optimizer.grad_clip),
      .reduction = config.parallel.reduction == "fast" ? Reduction::kFast : Reduction::kCanonical,
      .zero = static_cast<ZeroStage>(config.parallel.zero),
      .offload = config.parallel.offload == "optimizer" ? Offload::kOptimizer : Offload::kNone,
      .accumulate_unsharded = config.parallel.accumulate_unsharded.value_or(false),
      .keep_gathered = config.parallel.keep_gathered.value_or(false),
      .recompute_every = static_cast<int>(config.parallel.recompute_every),
      .cuda_graph = config.parallel.cuda_graph,
      .prefetch_depth = static_cast<int>(config.parallel.prefetch_depth),
      .data_cache_bytes = config.data.kind == "images" ? config.data.cache : 0,
      .group_min_bytes = config.parallel.group_min_bytes,
      .pipeline = {.stages = static_cast<int>(config.parallel.pipeline),
                   .schedule = schedule_of(config.parallel.schedule),
                   .chunks = static_cast<int>(config.parallel.chunks),
                   .cut = config.parallel.pipeline == 1 ? std::vector<int>{}
                                                        : pipeline_cut(config, *build_blocks(config.model))},
      .sample = sample_spec(config),
      .timeout_s = config.parallel.timeout_s,
      .precision = build_precision(config.precision),
      .loss_scale = loss_scale_config(config.precision)};
}

LrSchedule lr_schedule(const JobConfig& config) {
  const OptimizerSection& section = config.optimizer;
  const auto kind = section.schedule == "cosine"      ? LrSchedule::Kind::kCosine
                    : section.schedule == "linear"    ? LrSchedule::Kind::kLinear
                    : section.schedule == "one_cycle" ? LrSchedule::Kind::kOneCycle
                                                      : LrSchedule::Kind::kConstant;
  return {.kind = kind,
          .peak = section.lr,
          .floor = section.min_lr,
          .warmup_steps = section.warmup_steps,
          .total_steps = config.train.steps};
}

SampleSpec sample_spec(const JobConfig& config) {
  if (is_image_model(config.model)) return image_sample_spec(config);
  return {.input = {config.model.seq_len}, .input_dtype = DType::kInt32, .target = {config.model.seq_len}};
}

int num_data_workers(const JobConfig& config, int threads) {
  constexpr int kMost = 16;  // decoders beyond that wait for memory
  if (const auto workers = data_workers(config.data)) return *workers;
  return is_image_model(config.model) ? std::clamp(threads, 1, kMost) : 1;
}

JobData open_eval_data(const JobConfig& config) {
  if (is_image_model(config.model)) return open_image_eval_data(config);
  if (config.data.kind == "synthetic") return {.eval = synthetic_tokens(config)};
  return {.eval = open_tokens(config, "data.eval", shards_of(config.data.eval, "eval.bin"), nullptr)};
}

JobData open_data(const JobConfig& config, bool read_whole) {
  if (is_image_model(config.model)) return open_image_data(config, read_whole);
  if (config.data.kind == "synthetic") {
    const auto data = synthetic_tokens(config);
    return {.train = data, .eval = config.data.eval.empty() ? nullptr : data};
  }
  JobData data;
  std::string* fingerprint = read_whole ? &data.fingerprint : nullptr;
  data.train = open_tokens(config, "data.train", shards_of(config.data.train, "train.bin"), fingerprint);
  if (!config.data.eval.empty()) {
    check_same_tokenizer(config.data);
    data.eval = open_tokens(config, "data.eval", shards_of(config.data.eval, "eval.bin"), fingerprint);
  }
  return data;
}

}  // namespace trireme
