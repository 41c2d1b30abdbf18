// Checks that involve several keys of a configuration.
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "launcher/config/combinations.h"
#include "launcher/config/config.h"
#include "launcher/config/nearest_name.h"
#include "launcher/families/model_family.h"
#include "runtime/base/error.h"
#include "runtime/precision.h"

namespace trireme {
namespace {

void check_data(const JobConfig& config) {
  const DataSection& data = config.data;
  const DataModule& module = family_of(config.model).data;
  TRIREME_CHECK(data.kind == DataKind::kSynthetic || data.kind == module.kind,
                "data.kind = \"{}\" is not what {} is trained on: set it to \"{}\" or \"synthetic\"",
                to_word(data.kind), config.model.name, to_word(module.kind));
  TRIREME_CHECK(data.kind == DataKind::kSynthetic || !data.train.empty(), "data.train is missing: {}",
                module.source);
  for (const auto& [key, value] : {std::pair{"mixup", data.mixup}, {"mosaic", data.mosaic}}) {
    TRIREME_CHECK(data.kind == DataKind::kImages || value == 0,
                  "data.{} = {} mixes pictures, but data.kind = \"{}\" has none: set data.{} = 0", key, value,
                  to_word(data.kind), key);
  }
  TRIREME_CHECK(data.crop_area[0] <= data.crop_area[1], "data.crop_area = [{}, {}]: the least comes first",
                data.crop_area[0], data.crop_area[1]);
  TRIREME_CHECK(data.crop_aspect[0] <= data.crop_aspect[1],
                "data.crop_aspect = [{}, {}]: the least comes first", data.crop_aspect[0],
                data.crop_aspect[1]);
}

void check_op_overrides(const PrecisionSection& precision) {
  std::vector<std::string> known;
  for (const OpPolicy& policy : kOpPolicies) known.emplace_back(policy.name);
  for (const auto& [name, mode] : precision.ops) {
    const auto op = find_op(name);
    TRIREME_CHECK(op, "precision.ops: there is no op '{}'; did you mean '{}'? Ops are {}", name,
                  nearest_name(name, known), fmt::join(known, ", "));
    const auto wanted = find_precision_mode(mode);
    TRIREME_CHECK(wanted, "precision.ops: {} = \"{}\" is not a precision; \"fp32\" is", name, mode);
    Precision().override_op(*op, *wanted);
  }
}

void check_precision(const JobConfig& config) {
  const PrecisionSection& precision = config.precision;
  check_op_overrides(precision);
  const DType grad_dtype = precision.grad_dtype.value_or(Precision(precision.mode).compute_dtype());
  TRIREME_CHECK(grad_dtype == DType::kFloat32 || config.parallel.reduction == Reduction::kCanonical,
                "precision.grad_dtype = \"{}\" wants parallel.reduction = \"canonical\": the library's own "
                "all-reduce sums in fp32 only",
                to_word(precision.grad_dtype));
  TRIREME_CHECK(precision.loss_scale.kind != LossScaleConfig::Kind::kDynamic ||
                    precision.min_scale <= precision.scale_init,
                "precision.min_scale = {} is above precision.scale_init = {}", precision.min_scale,
                precision.scale_init);
}

void check_pipeline(const JobConfig& config) {
  const ParallelSection& parallel = config.parallel;
  const bool interleaved = parallel.schedule == PipelineSchedule::kInterleaved;
  TRIREME_CHECK(
      parallel.chunks == 1 || interleaved,
      "parallel.chunks = {} wants parallel.schedule = \"interleaved\"; \"{}\" runs one chunk a rank",
      parallel.chunks, to_word(parallel.schedule));
  TRIREME_CHECK(
      parallel.chunks > 1 || !interleaved,
      "parallel.schedule = \"interleaved\" wants parallel.chunks = 2 or more; with one chunk a rank it "
      "is \"1f1b\"");
  if (parallel.pipeline == 1) {
    TRIREME_CHECK(
        parallel.chunks == 1,
        "parallel.schedule = \"interleaved\" wants parallel.pipeline = 2 or more: one stage has nothing "
        "to interleave");
    TRIREME_CHECK(parallel.pipeline_cut.kind != PipelineCut::Kind::kListed,
                  "parallel.pipeline_cut = \"{}\" cuts a model that parallel.pipeline = 1 leaves whole",
                  to_word(parallel.pipeline_cut));
  }
  check_combinations(config);
}

/// "1, 2 or 5".
std::string join_choices(const std::vector<std::int64_t>& values) {
  std::string text;
  for (std::size_t i = 0; i < values.size(); ++i) {
    text += fmt::format("{}{}", i == 0 ? "" : i + 1 == values.size() ? " or " : ", ", values[i]);
  }
  return text;
}

/// At most `count` divisors of `number`, those nearest to `wanted`, ascending.
std::vector<std::int64_t> divisors_near(std::int64_t number, std::int64_t wanted, std::size_t count) {
  std::vector<std::int64_t> divisors;
  for (std::int64_t d = 1; d * d <= number; ++d) {
    if (number % d != 0) continue;
    divisors.push_back(d);
    if (d * d != number) divisors.push_back(number / d);
  }
  const auto distance = [wanted](std::int64_t d) { return d > wanted ? d - wanted : wanted - d; };
  std::ranges::sort(divisors);
  std::ranges::stable_sort(divisors, {}, distance);
  divisors.resize(std::min(divisors.size(), count));
  std::ranges::sort(divisors);
  return divisors;
}

}  // namespace

int data_ranks(const ParallelSection& parallel, int num_ranks) {
  TRIREME_CHECK(num_ranks % parallel.pipeline == 0,
                "parallel.pipeline = {} stages cannot share {} rank(s) equally: start a multiple of {} ranks",
                parallel.pipeline, num_ranks, parallel.pipeline);
  return num_ranks / static_cast<int>(parallel.pipeline);
}

void check_config(const JobConfig& config) {
  family_of(config.model).check(config.model);
  check_data(config);
  check_precision(config);
  check_pipeline(config);
  TRIREME_CHECK(config.optimizer.min_lr <= config.optimizer.lr,
                "optimizer.min_lr = {} is above optimizer.lr = {}", config.optimizer.min_lr,
                config.optimizer.lr);
  TRIREME_CHECK(!config.optimizer.nesterov || config.optimizer.momentum > 0,
                "optimizer.nesterov needs a momentum, but optimizer.momentum = 0");
  TRIREME_CHECK(
      !config.parallel.cuda_graph || config.model.dropout == 0,
      "parallel.cuda_graph = true cannot play steps that draw random numbers, but model.dropout = {}; "
      "set cuda_graph = false or dropout = 0",
      config.model.dropout);
  TRIREME_CHECK(!config.parallel.cuda_graph || config.log.trace_step == 0,
                "log.trace_step = {}: a step that parallel.cuda_graph plays has no actions to time; set one "
                "of them to its default",
                config.log.trace_step);
  TRIREME_CHECK(!to_word(config.checkpoint.resume).empty(),
                "checkpoint.resume is empty: \"auto\", \"never\" or the path of a checkpoint");
}

std::string check_schedule(const JobConfig& config) {
  const OptimizerSection& optimizer = config.optimizer;
  if (optimizer.warmup_steps < config.train.steps) return "";
  TRIREME_CHECK(
      optimizer.schedule == LrSchedule::Kind::kConstant,
      "optimizer.warmup_steps = {} leaves none of train.steps = {} to optimizer.schedule = \"{}\": the "
      "learning rate would not come to optimizer.lr = {} and down again; take fewer warm-up steps (0 "
      "for a trial of a few steps) or more steps",
      optimizer.warmup_steps, config.train.steps, to_word(optimizer.schedule), optimizer.lr);
  return fmt::format(
      "optimizer.warmup_steps = {}: all of train.steps = {} are warm-up, so the learning rate does not reach "
      "optimizer.lr = {}",
      optimizer.warmup_steps, config.train.steps, optimizer.lr);
}

void check_batch(const TrainSection& train, int num_data_ranks) {
  // A plan holds every micro-batch of every rank; nobody accumulates a million of them.
  constexpr std::int64_t kMaxMicroBatches = std::int64_t{1} << 20;
  TRIREME_CHECK(
      train.global_batch / train.micro_batch <= kMaxMicroBatches,
      "train.global_batch = {} makes {} micro-batches of train.micro_batch = {}; a step has at most {}",
      train.global_batch, train.global_batch / train.micro_batch, train.micro_batch, kMaxMicroBatches);
  const std::int64_t round = train.micro_batch * num_data_ranks;
  if (train.global_batch % round == 0) return;
  const std::int64_t above = (train.global_batch / round + 1) * round, below = above - round;
  std::string advice = below > 0 ? fmt::format("train.global_batch = {} or {} would do", below, above)
                                 : fmt::format("train.global_batch = {} would do", above);
  if (train.global_batch % num_data_ranks == 0) {
    const auto choices = divisors_near(train.global_batch / num_data_ranks, train.micro_batch, 4);
    advice += fmt::format(", or train.micro_batch = {}", join_choices(choices));
  } else {
    advice +=
        fmt::format("; no micro-batch divides {} samples among {} ranks", train.global_batch, num_data_ranks);
  }
  throw Error(
      ErrorCode::kInvalidInput,
      fmt::format("train.global_batch = {} is not a multiple of train.micro_batch x data ranks = {} x {} "
                  "= {}: {}",
                  train.global_batch, train.micro_batch, num_data_ranks, round, advice));
}

}  // namespace trireme
