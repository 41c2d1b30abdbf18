#include "launcher/job/build.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "launcher/families/model_family.h"
#include "launcher/families/tensor_chunks.h"
#include "launcher/job/eval_in_train.h"
#include "launcher/job/lora.h"
#include "launcher/job/parameter_patterns.h"
#include "launcher/keys/job_file.h"
#include "parallel/foresee/accumulation_choice.h"
#include "parallel/layout/block_work.h"
#include "parallel/layout/stage_cut.h"
#include "parallel/layout/stage_map.h"
#include "runtime/base/error.h"

namespace trireme {
namespace {

OptimizerConfig optimizer_config(const OptimizerSection& section) {
  return {.kind = section.name,
          .weight_decay = static_cast<float>(section.weight_decay),
          .beta1 = static_cast<float>(section.betas[0]),
          .beta2 = static_cast<float>(section.betas[1]),
          .epsilon = static_cast<float>(section.epsilon),
          .momentum = static_cast<float>(section.momentum),
          .nesterov = section.nesterov,
          .muon_scale = section.adjust_lr};
}

LossScaleConfig loss_scale_config(const PrecisionSection& section) {
  LossScaleConfig config{.initial = static_cast<float>(section.scale_init),
                         .growth_factor = static_cast<float>(section.scale_growth),
                         .backoff_factor = static_cast<float>(section.scale_backoff),
                         .growth_interval = static_cast<std::int32_t>(section.scale_interval)};
  if (section.mode != PrecisionMode::kFp16) return config;  // kOff
  config.kind = section.loss_scale.kind;
  if (config.kind == LossScaleConfig::Kind::kStatic) {
    config.initial = static_cast<float>(section.loss_scale.scale);
  }
  return config;
}

}  // namespace

Precision build_precision(const PrecisionSection& section) {
  Precision precision(section.mode);
  for (const auto& [op, text] : section.ops) precision.override_op(*find_op(op), *find_precision_mode(text));
  precision.grad_dtype = section.grad_dtype.value_or(precision.compute_dtype());
  return precision;
}

JobConfig resolve(JobConfig config) {
  family_of(config.model).fill_in(config);
  check_config(config);
  check_tensor_ranks(config);
  const bool cuts = config.parallel.layout.pipeline > 1 && !config.parallel.is_searched() &&
                    config.parallel.pipeline_cut.kind != PipelineCut::Kind::kMeasured;
  if (cuts) pipeline_cut(config, *build_blocks(config.model));  // throws if the blocks cannot be cut
  if (!parameter_rules(config).empty()) check_patterns(config, *build_blocks(config.model));
  if (config.optimizer.name == OptimizerConfig::Kind::kMuon) {
    check_matrices(config, *build_blocks(config.model));
  }
  return config;
}

std::shared_ptr<const BlockList> build_blocks(const ModelSection& model) {
  BlockList blocks = family_of(model).build(model);
  if (model.has_adapters()) add_adapters(blocks, model);
  return std::make_shared<const BlockList>(std::move(blocks));
}

std::vector<int> pipeline_cut(const JobConfig& config, const BlockList& blocks) {
  const ParallelSection& parallel = config.parallel;
  if (parallel.layout.pipeline == 1) return {};
  TRIREME_CHECK(parallel.pipeline_cut.kind != PipelineCut::Kind::kMeasured,
                "parallel.pipeline_cut = \"measured\": nothing has measured it (see chosen_cut)");
  const StageCounts counts{.num_units = static_cast<int>(blocks.size()),
                           .pipeline = parallel.layout.pipeline,
                           .chunks = parallel.layout.chunks};
  using Kind = PipelineCut::Kind;
  if (parallel.pipeline_cut.kind == Kind::kListed) {
    std::vector<int> first_units;
    for (const std::int64_t first : parallel.pipeline_cut.firsts) {
      first_units.push_back(static_cast<int>(std::min<std::int64_t>(first, std::numeric_limits<int>::max())));
    }
    return StageMap::given(counts, first_units).first_units();
  }
  if (parallel.pipeline_cut.kind == Kind::kBlocks) return StageMap::even(counts).first_units();
  const std::vector<double> costs = parallel.pipeline_cut.kind == Kind::kParameters
                                        ? parameter_costs(blocks)
                                        : work_costs(blocks, sample_spec(config));
  return cut_evenly(costs, counts.pipeline, counts.chunks).first_units();
}

PlannedJob planned_job(const JobConfig& config, std::shared_ptr<const BlockList> blocks, int num_ranks) {
  EngineOptions options = engine_options(config, *blocks);
  options.device.type = config.parallel.device.value_or(DeviceType::kCpu);
  // The default of an open field must not be a value that the engine refuses: [Note: uneven layouts].
  if (config.parallel.open.contains("accumulate_unsharded") && is_uneven(options, num_ranks)) {
    options.layout.accumulate_unsharded = true;
  }
  return {std::move(blocks), options, sample_spec(config), num_ranks};
}

BatchLayout batch_layout(const JobConfig& config, int num_ranks) {
  const Mesh mesh = mesh_of(num_ranks, config.parallel.layout.pipeline, config.parallel.layout.tensor);
  const BatchLayout batch{.global_batch = config.train.global_batch,
                          .micro_batch = config.train.micro_batch,
                          .data_ranks = mesh.size(Axis::kData)};
  batch.check();
  return batch;
}

EngineOptions engine_options(const JobConfig& config, const BlockList& blocks) {
  const std::int64_t limit = config.parallel.memory_limit;
  Layout layout = config.parallel.layout;
  layout.cut = pipeline_cut(config, blocks);
  return {.device = {DeviceType::kCpu, 0},
          .threads = static_cast<int>(std::max<std::int64_t>(1, config.parallel.threads)),
          .memory_limit = limit > 0 ? std::optional(limit) : std::nullopt,
          .global_batch = config.train.global_batch,
          .micro_batch = config.train.micro_batch,
          .seed = static_cast<std::uint64_t>(config.train.seed),
          .optimizer = optimizer_config(config.optimizer),
          .rules = parameter_rules(config),
          .ema = static_cast<float>(config.train.ema),
          .ema_tau = config.train.ema_tau,
          .grad_clip = static_cast<float>(config.optimizer.grad_clip),
          .reduction = config.parallel.reduction,
          .layout = layout,
          .hosts = config.parallel.hosts,
          .offload = config.parallel.offload,
          .cuda_graph = config.parallel.cuda_graph,
          .data_cache_bytes = keeps_pictures(config.data.kind) ? config.data.cache : 0,
          .sample = sample_spec(config),
          .timeout_s = config.parallel.timeout_s.seconds,
          .precision = build_precision(config.precision),
          .loss_scale = loss_scale_config(config.precision),
          .verify_state = config.checkpoint.verify_every > 0,
          .snapshots = config.checkpoint.background || config.checkpoint.partner};
}

LrSchedule lr_schedule(const JobConfig& config) {
  const OptimizerSection& section = config.optimizer;
  return {.kind = section.schedule,
          .peak = section.lr,
          .floor = section.min_lr,
          .warmup_steps = section.warmup_steps,
          .total_steps = config.train.steps,
          .decay_steps = section.decay_steps};
}

SampleSpec sample_spec(const JobConfig& config) {
  return family_of(config.model).data.sample_spec(config);
}

int num_data_workers(const JobConfig& config, int threads) {
  return config.data.workers.value_or(std::clamp(threads, 1, family_of(config.model).data.max_auto_workers));
}

JobData open_data(const JobConfig& config, bool read_whole) {
  JobData data = family_of(config.model).data.open(config, read_whole);
  if (read_whole) check_eval_not_in_train(config, data);
  return data;
}

JobData open_eval_data(const JobConfig& config, bool read_whole) {
  return family_of(config.model).data.open_eval(config, read_whole);
}

std::string JobData::fingerprint_text() const {
  std::string text;
  if (train_fingerprint) text += fmt::format("data.train: {}\n", to_string(*train_fingerprint));
  if (eval_fingerprint) text += fmt::format("data.eval: {}\n", to_string(*eval_fingerprint));
  return text;
}

}  // namespace trireme
