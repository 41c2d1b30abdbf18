// Checks between several keys of a configuration.
#include <fmt/ranges.h>

#include <utility>
#include <vector>

#include "launcher/config/config.h"
#include "launcher/config/nearest_name.h"
#include "launcher/families/model_family.h"
#include "launcher/keys/job_file.h"
#include "launcher/observe/listen_address.h"
#include "launcher/observe/metrics_file.h"
#include "runtime/base/error.h"
#include "runtime/precision.h"

namespace trireme {
namespace {

void check_data(const JobConfig& config) {
  const DataSection& data = config.data;
  const DataModule& module = family_of(config.model).data;
  const bool fits = data.kind == module.kind || data.kind == module.other_kind;
  TRIREME_CHECK(data.kind == DataKind::kSynthetic || fits,
                "data.kind = \"{}\" is not what {} is trained on: set it to \"{}\" or \"synthetic\"",
                to_word(data.kind), config.model.name, to_word(module.kind));
  TRIREME_CHECK(config.model.task != ModelTask::kClassify || data.kind == DataKind::kDocuments,
                "model.task = \"classify\" learns from data.kind = \"documents\", and it is \"{}\"",
                to_word(data.kind));
  TRIREME_CHECK(!data.pack || is_of_documents(data.kind),
                "data.pack = true packs documents, and data.kind = \"{}\" has none", to_word(data.kind));
  TRIREME_CHECK(data.too_long == DocumentDataset::TooLong::kCutEnd || data.kind == DataKind::kChat,
                "data.too_long = \"{}\" is for data.kind = \"chat\", and it is \"{}\"",
                to_word(data.too_long), to_word(data.kind));
  TRIREME_CHECK(data.kind == DataKind::kSynthetic || !data.train.empty(), "data.train is missing: {}",
                module.source);
  for (const auto& [key, value] : {std::pair{"mixup", data.mixup}, {"mosaic", data.mosaic}}) {
    TRIREME_CHECK(keeps_pictures(data.kind) || value == 0,
                  "data.{} = {} mixes pictures, but data.kind = \"{}\" has none: set data.{} = 0", key, value,
                  to_word(data.kind), key);
  }
  TRIREME_CHECK(data.crop_area[0] <= data.crop_area[1], "data.crop_area = [{}, {}]: the least comes first",
                data.crop_area[0], data.crop_area[1]);
  TRIREME_CHECK(data.crop_aspect[0] <= data.crop_aspect[1],
                "data.crop_aspect = [{}, {}]: the least comes first", data.crop_aspect[0],
                data.crop_aspect[1]);
}

void check_new_head(const ModelSection& model) {
  if (!model.new_head) return;
  TRIREME_CHECK(!model.init_from.empty(),
                "model.new_head = true needs model.init_from: without it all of the model is new");
  TRIREME_CHECK(
      counts_classes(model) || family_of(model).detects || family_of(model).class_head.empty(),
      "model.new_head = true needs model.task = \"classify\": only a head of classes is drawn anew");
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
                "precision.grad_dtype = \"{}\" needs parallel.reduction = \"canonical\": the library's own "
                "all-reduce sums in fp32 only",
                to_word(precision.grad_dtype));
  TRIREME_CHECK(
      precision.mode != PrecisionMode::kFp8 || config.model.tensor_chunks == 1,
      "precision.mode = \"fp8\" does not go with model.tensor_chunks = {} yet: chunks would have scales of "
      "their own; use \"bf16\", or one chunk",
      config.model.tensor_chunks);
  TRIREME_CHECK(precision.loss_scale.kind != LossScaleConfig::Kind::kDynamic ||
                    precision.min_scale <= precision.scale_init,
                "precision.min_scale = {} is above precision.scale_init = {}", precision.min_scale,
                precision.scale_init);
}

void check_pipeline(const JobConfig& config) {
  const ParallelSection& parallel = config.parallel;
  const bool interleaved = parallel.layout.schedule == PipelineSchedule::kInterleaved;
  TRIREME_CHECK(
      parallel.layout.chunks == 1 || interleaved,
      "parallel.chunks = {} needs parallel.schedule = \"interleaved\"; \"{}\" runs one chunk a rank",
      parallel.layout.chunks, name(parallel.layout.schedule));
  TRIREME_CHECK(
      parallel.layout.chunks > 1 || !interleaved,
      "parallel.schedule = \"interleaved\" needs parallel.chunks = 2 or more; with one chunk a rank it "
      "is \"1f1b\"");
  if (parallel.layout.pipeline == 1) {
    TRIREME_CHECK(
        parallel.layout.chunks == 1,
        "parallel.schedule = \"interleaved\" needs parallel.pipeline = 2 or more: one stage has nothing "
        "to interleave");
    TRIREME_CHECK(parallel.pipeline_cut.kind != PipelineCut::Kind::kListed,
                  "parallel.pipeline_cut = \"{}\" cuts a model that parallel.pipeline = 1 leaves whole",
                  to_word(parallel.pipeline_cut));
  }
}

void check_sequence(const JobConfig& config) {
  if (!config.parallel.layout.sequence) return;
  TRIREME_CHECK(
      config.parallel.layout.tensor > 1,
      "parallel.sequence = true needs parallel.tensor = 2 or more, so that ranks can share a sequence");
  TRIREME_CHECK(config.model.seq_len % config.parallel.layout.tensor == 0,
                "parallel.sequence = true: parallel.tensor = {} ranks cannot share model.seq_len = {} tokens "
                "equally; use a sequence that is a multiple of {}, or parallel.sequence = false",
                config.parallel.layout.tensor, config.model.seq_len, config.parallel.layout.tensor);
}

/// Values that the search decides are checked after the search.
void check_searched_layout(const ParallelSection& parallel) {
  TRIREME_CHECK(
      parallel.pipeline_cut.kind == PipelineCut::Kind::kFlops,
      "parallel.pipeline_cut = \"{}\" is of one layout, and parallel.layout = \"auto\" searches among "
      "cuts by \"flops\": take out one of the two",
      to_word(parallel.pipeline_cut));
  TRIREME_CHECK(parallel.cluster_device.empty() || !parallel.cluster.empty(),
                "parallel.cluster_device = \"{}\" is of the file that parallel.cluster names: set it",
                parallel.cluster_device);
}

void check_layout(const JobConfig& config) {
  if (config.parallel.is_searched()) return check_searched_layout(config.parallel);
  check_pipeline(config);
  check_sequence(config);
}

void check_optimizer(const JobConfig& config) {
  const OptimizerSection& optimizer = config.optimizer;
  TRIREME_CHECK(optimizer.min_lr <= optimizer.lr, "optimizer.min_lr = {} is above optimizer.lr = {}",
                optimizer.min_lr, optimizer.lr);
  TRIREME_CHECK(!optimizer.nesterov || optimizer.momentum > 0,
                "optimizer.nesterov needs a momentum, but optimizer.momentum = 0");
  if (optimizer.name != OptimizerConfig::Kind::kMuon) return;
  TRIREME_CHECK(config.parallel.layout.zero == ZeroStage::kNone,
                "optimizer.name = \"muon\" updates whole matrices, but a rank has only a piece of each with "
                "parallel.zero = {}: set parallel.zero = 0, or use another optimizer",
                static_cast<int>(config.parallel.layout.zero));
  TRIREME_CHECK(
      config.model.tensor_chunks == 1,
      "optimizer.name = \"muon\" updates whole matrices, but model.tensor_chunks = {} splits them: set it "
      "to 1, or use another optimizer",
      config.model.tensor_chunks);
}

}  // namespace

void check_config(const JobConfig& config) {
  family_of(config.model).check(config.model);
  check_new_head(config.model);
  check_data(config);
  check_precision(config);
  check_layout(config);
  check_optimizer(config);
  TRIREME_CHECK(config.train.ema_tau == 0 || config.train.ema > 0,
                "train.ema_tau = {} is the ramp of train.ema, and train.ema = 0 averages nothing: set "
                "train.ema, such as 0.9998, or leave train.ema_tau out",
                config.train.ema_tau);
  TRIREME_CHECK(
      !config.parallel.cuda_graph || config.log.trace_step.first == 0,
      "log.trace_step = {}: a step that parallel.cuda_graph replays has no actions to time; set one "
      "of them to its default",
      to_word(config.log.trace_step));
  TRIREME_CHECK(
      !config.parallel.cuda_graph || !is_of_documents(config.data.kind),
      "parallel.cuda_graph replays a step as it was recorded, and with data.kind = \"{}\" the number "
      "of targets differs from step to step: set it to false",
      config.data.kind == DataKind::kChat ? "chat" : "documents");
  TRIREME_CHECK(
      config.train.on_spike != OnSpike::kRollback || config.checkpoint.every > 0,
      "train.on_spike = \"rollback\" goes back to a checkpoint, and checkpoint.every = 0 saves none: set "
      "it to the steps between two");
  TRIREME_CHECK(
      config.train.on_spike != OnSpike::kSkip || !config.parallel.cuda_graph,
      "train.on_spike = \"skip\" decides about each update on the host, which parallel.cuda_graph does "
      "not ask: set one of them to its default");
  TRIREME_CHECK(
      !config.checkpoint.partner || config.checkpoint.every > 0,
      "checkpoint.partner = true copies checkpoints, and checkpoint.every = 0 saves none: set it to the "
      "steps between two");
  TRIREME_CHECK(
      config.checkpoint.partner_folder.starts_with('/'),
      "checkpoint.partner_folder = \"{}\" is not an absolute path: hosts have no common place that it "
      "could begin at; the default is /dev/shm/trireme-{{uid}}",
      config.checkpoint.partner_folder);
  if (!config.log.prometheus.empty()) check_metrics_path(config.log.prometheus);
  if (!config.log.listen.empty())
    parse_listen_address(config.log.listen, fmt::format("log.listen = \"{}\"", config.log.listen));
  TRIREME_CHECK(config.log.trace_step.last <= config.train.steps,
                "log.trace_step = {} is beyond the last step, train.steps = {}",
                to_word(config.log.trace_step), config.train.steps);
  TRIREME_CHECK(!to_word(config.checkpoint.resume).empty(),
                "checkpoint.resume is empty: \"auto\", \"never\" or the path of a checkpoint");
}

std::string doubt_about_adapters(const JobConfig& config) {
  const bool starts_anew =
      config.model.init_from.empty() && (config.checkpoint.resume.kind == Resume::Kind::kAuto ||
                                         config.checkpoint.resume.kind == Resume::Kind::kNever);
  if (!config.model.has_adapters() || !starts_anew) return "";
  return "train.lora without model.init_from: the frozen weights under the adapters are random, from "
         "train.seed";
}

std::string doubt_about_recorded_steps(const JobConfig& config, DeviceType device) {
  const ParallelSection& parallel = config.parallel;
  if (device != DeviceType::kCuda || !parallel.cuda_graph || parallel.layout.pipeline == 1) return "";
  return fmt::format(
      "parallel.cuda_graph = true with parallel.pipeline = {} has not run on a GPU yet: a recorded step need "
      "not run all its branches at once, and stages that wait for each other's messages may then wait "
      "forever. If the first steps do not end, set parallel.cuda_graph = false",
      parallel.layout.pipeline);
}

std::string check_schedule(const JobConfig& config) {
  const OptimizerSection& optimizer = config.optimizer;
  if (optimizer.warmup_steps < config.train.steps) {
    TRIREME_CHECK(optimizer.schedule != LrSchedule::Kind::kWsd ||
                      optimizer.warmup_steps + optimizer.decay_steps <= config.train.steps,
                  "optimizer.warmup_steps = {} and optimizer.decay_steps = {} are more than train.steps = {}",
                  optimizer.warmup_steps, optimizer.decay_steps, config.train.steps);
    return "";
  }
  TRIREME_CHECK(optimizer.schedule == LrSchedule::Kind::kConstant,
                "optimizer.warmup_steps = {} leaves none of train.steps = {} to optimizer.schedule = \"{}\": "
                "the learning rate would not come to optimizer.lr = {} and down again; take fewer warm-up "
                "steps (0 for a trial of a few steps) or more steps",
                optimizer.warmup_steps, config.train.steps, to_word(optimizer.schedule), optimizer.lr);
  return fmt::format(
      "optimizer.warmup_steps = {}: all of train.steps = {} are warm-up, so the learning rate does not reach "
      "optimizer.lr = {}",
      optimizer.warmup_steps, config.train.steps, optimizer.lr);
}

}  // namespace trireme
