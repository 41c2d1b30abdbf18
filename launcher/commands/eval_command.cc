// trireme eval CHECKPOINT [--data PATH] [--set key=value]... [--on-bad-image fail|skip] [--ema] [--threads N]
// [--json] [--predictions FILE] [--confusion FILE.svg]
#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "launcher/commands/commands.h"
#include "launcher/commands/eval_config.h"
#include "launcher/commands/output_file.h"
#include "launcher/data/data_check.h"
#include "launcher/data/image_data.h"
#include "launcher/families/model_family.h"
#include "launcher/host/agreement.h"
#include "launcher/host/arithmetic.h"
#include "launcher/host/device.h"
#include "launcher/host/machine.h"
#include "launcher/host/standard_output.h"
#include "launcher/job/build.h"
#include "launcher/keys/left_out.h"
#include "launcher/render/json_text.h"
#include "launcher/report/evaluation_report.h"
#include "launcher/report/predictions_file.h"
#include "launcher/train/evaluation.h"
#include "launcher/train/rank_session.h"
#include "launcher/train/trained_model.h"
#include "runtime/base/atomic_file.h"
#include "runtime/base/log.h"
#include "runtime/diffusion/latent_dataset.h"

namespace trireme {
namespace {

constexpr std::string_view kAnnotationsOverride = "data.eval_annotations=";

struct EvalArguments {
  std::string checkpoint;
  std::string data;
  std::string on_bad_image;
  std::vector<std::string> overrides;
  int threads = 0;
  bool ema = false;
  bool force = false;
  bool json = false;
  std::string predictions, confusion;  // files to write; empty: none
};

/// The checkpoint's job, as this command runs it.
JobConfig eval_config(const TrainedModel& model, const EvalArguments& arguments) {
  JobConfig config = resolve(evaluation_config(model.config, arguments.overrides));
  if (!arguments.data.empty()) {
    config.data.eval = arguments.data;
    const bool has_annotations = std::ranges::any_of(
        arguments.overrides, [](const std::string& text) { return text.starts_with(kAnnotationsOverride); });
    if (!has_annotations) config.data.eval_annotations.clear();  // of the other data
  }
  if (!arguments.on_bad_image.empty()) {
    TRIREME_CHECK(family_of(config.model).data.kind == DataKind::kImages,
                  "--on-bad-image {}: it has no effect with model.name = \"{}\": leave it out",
                  arguments.on_bad_image, config.model.name);
    read_word(arguments.on_bad_image, config.data.on_bad_image);
  }
  TRIREME_CHECK(!config.data.eval.empty() || config.data.kind == DataKind::kSynthetic,
                "the checkpoint's job has no data.eval: say what to evaluate on with --data");
  // Folders of diffusers do not say how many vectors a condition has.
  if (!model.checkpoint && config.model.condition_width > 0 && config.data.kind == DataKind::kLatents)
    config.model.seq_len = condition_vectors(config.data.eval);
  return config;
}

EngineOptions eval_engine_options(const JobConfig& config, const EvalArguments& arguments, Device device,
                                  const LaunchEnvironment& launch, int num_ranks, const BlockList& blocks) {
  EngineOptions options = engine_options(config, blocks);
  options.device = device;
  const auto given = arguments.threads > 0 ? arguments.threads : static_cast<int>(config.parallel.threads);
  options.threads = given > 0 ? given : threads_per_rank(count_cores(), launch.num_local_ranks);
  options.global_batch = options.micro_batch * num_ranks;
  options.optimizer = {.kind = OptimizerConfig::Kind::kSgd};  // has no state
  options.ema = 0;                                            // averages are loaded as parameters
  options.data_cache_bytes = 0;                               // every sample is read only once
  return options;
}

/// Also the next tokens of texts.
bool counts_top_k(const ModelSection& model) {
  return !family_of(model).makes_pictures && !family_of(model).detects;
}

/// With empty `data`, compares only what follows from the job and its paths: the tokenizer.
MetData met_by(const JobConfig& config, const JobData& data, const TrainedModel& model,
               const EvalArguments& arguments) {
  MetData met = met_by_evaluation(config, data, model.folder.string());
  if (arguments.data.empty()) return met;
  met.data.eval = std::nullopt;  // other evaluation data is intended
  met.eval = met.tokenizer = fmt::format("--data \"{}\"", arguments.data);
  return met;
}

void check_data(const DataRecord& saved, const JobConfig& config, const JobData& opened,
                const TrainedModel& model, const EvalArguments& arguments) {
  const MetData met = met_by(config, opened, model, arguments);
  for (const std::string& warning : compare_data(Meeting::kEval, saved, met).warnings) log_warning(warning);
  const std::string unknown = describe_unknown_data(saved, met.checkpoint);
  if (!unknown.empty() && met.data.eval) log_warning(unknown);
}

/// Before the evaluation, because it may take long.
void check_files(const JobConfig& config, const EvalArguments& arguments) {
  for (const auto& [option, file] :
       {std::pair<const char*, const std::string&>("--predictions", arguments.predictions),
        {"--confusion", arguments.confusion}}) {
    if (file.empty()) continue;
    const bool has_file =
        counts_classes(config.model) || (family_of(config.model).detects && &file == &arguments.predictions);
    TRIREME_CHECK(has_file, "{}: a {} does not classify", option, config.model.name);
    check_is_new(option, file, arguments.force);
    check_can_be_written(option, file);
  }
}

/// A model, and the data to evaluate it on.
struct Evaluated {
  TrainedModel model;
  JobConfig config;
  JobData data;
  std::vector<std::string> class_names;
  std::shared_ptr<const BlockList> blocks;
  int workers = 1;  // reader threads
};

Evaluated open_evaluated(const EvalArguments& arguments, const LaunchEnvironment& launch) {
  check_threads(arguments.threads, count_cores(), "--threads");
  Evaluated opened;
  opened.model = open_trained_model(arguments.checkpoint, arguments.ema);
  const TrainedModel& model = opened.model;
  opened.config = eval_config(model, arguments);
  check_files(opened.config, arguments);
  // First, because another tokenizer may have ids beyond the vocabulary.
  compare_data(Meeting::kEval, model.data, met_by(opened.config, {}, model, arguments));
  opened.data = open_eval_data(opened.config, /*read_whole=*/launch.local_rank == 0);
  check_data(model.data, opened.config, opened.data, model, arguments);  // class names before their number
  check_classes(opened.config, opened.data);
  opened.class_names = model.data.class_names;
  if (opened.class_names.empty())
    opened.class_names = classes_of_evaluation(opened.config, opened.data).names;
  opened.blocks = build_blocks(opened.config.model);
  return opened;
}

void check_finite(const EvalMetrics& metrics, const Evaluated& opened) {
  if (std::isfinite(metrics.loss)) return;  // on every rank
  throw AgreedError(ErrorCode::kRuntime,
                    fmt::format("{}: the loss is {}: the model has values that are not finite, or "
                                "overflows in precision.mode = \"{}\"",
                                opened.model.folder.string(),
                                std::isnan(metrics.loss) ? "NaN" : "infinite",  // without NaN's sign
                                to_word(opened.config.precision.mode)));
}

/// Collective. Evaluates, and writes the files of the arguments.
EvaluationReport evaluate_model(Engine& engine, const Evaluated& opened, const EvalArguments& arguments,
                                Communicator& comm) {
  const JobConfig& config = opened.config;
  const JobData& data = opened.data;
  const bool has_classes = counts_classes(config.model);
  ClassPredictions predictions;
  std::optional<DetectionResults> detections;
  if (data.eval_set) detections.emplace(data.eval_set, data.eval->num_samples());
  EvaluationReport report;
  report.metrics = evaluate(engine, {.dataset = data.eval,
                                     .num_samples = data.eval->num_samples(),
                                     .workers = opened.workers,
                                     .counts_top_k = counts_top_k(config.model),
                                     .counts_answers = config.data.kind == DataKind::kChat,
                                     .by_noise_band = family_of(config.model).makes_pictures,
                                     .predictions = has_classes ? &predictions : nullptr,
                                     .detections = detections ? &*detections : nullptr});
  report.metrics.of_averages = arguments.ema;
  check_finite(report.metrics, opened);
  LeftOut left_out;
  left_out.gather(comm, {data.eval.get()});
  std::vector<ClassPrediction> all;
  if (has_classes) all = predictions.gather(comm);
  run_stage(comm, [&] {
    if (comm.rank() != 0) return;
    report.model = opened.model.folder.string();
    report.step = opened.model.step;
    report.num_left_out = data.eval->num_samples() - report.metrics.num_samples;
    report.text = text_figures(config, report.metrics);
    report.class_names = opened.class_names;
    if (has_classes)
      report.classes = ClassReport{ConfusionMatrix(all, config.model.classes), opened.class_names};
    if (!arguments.predictions.empty()) {
      write_text_file(arguments.predictions, has_classes ? predictions_text(all, *report.classes, data)
                                                         : json_text(detections->to_json()) + "\n");
    }
    if (!arguments.confusion.empty()) write_text_file(arguments.confusion, to_svg(*report.classes));
  });
  return report;
}

void print(const EvaluationReport& report, const EvalArguments& arguments) {
  if (arguments.json) return print_line(json_text(to_json(report)));
  print_text(tables_text(report));
  print_line(summary_line(report));
}

ExitCode run_eval(const EvalArguments& arguments, const LaunchEnvironment& launch) {
  return run_as_rank(
      launch, {.run = [&](RankSession& session) {
        const auto& comm = session.comm();
        Evaluated opened;
        {
          const Watchdog::Scope scope = session.inside("the opening of the checkpoint and its data");
          run_stage(*comm, [&] { opened = open_evaluated(arguments, launch); });
        }
        const JobConfig& config = opened.config;
        session.set_limit(config.parallel.timeout_s.seconds);
        const Watchdog::Scope scope = session.inside("the evaluation");
        const RankDevice rank = choose_device(config.parallel, launch, comm);
        check_same_arithmetic(*comm, arithmetic_of(rank.device));
        const EngineOptions options =
            eval_engine_options(config, arguments, rank.device, launch, comm->size(), *opened.blocks);
        opened.workers = num_data_workers(config, options.threads);
        std::unique_ptr<Engine> engine;
        run_stage(*comm, [&] { engine = std::make_unique<Engine>(opened.blocks, rank.comm, options); });
        run_stage(*comm, [&] { opened.model.load(*engine, arguments.ema); });
        const EvaluationReport report = evaluate_model(*engine, opened, arguments, *comm);
        if (comm->rank() == 0) print(report, arguments);
        return ExitCode::kDone;
      }});
}

}  // namespace

void add_eval_command(CLI::App& app, Command& chosen) {
  auto arguments = std::make_shared<EvalArguments>();
  CLI::App* command = app.add_subcommand("eval", "Evaluate a trained model, alone or under mpirun");
  command
      ->add_option(
          "CHECKPOINT", arguments->checkpoint,
          "A checkpoint, the output folder of a run (its newest checkpoint), or a folder of Hugging Face's "
          "transformers")
      ->required();
  command->add_option(
      "--data", arguments->data,
      "Evaluation data (default: data.eval of the checkpoint's job). COCO's annotations of it are "
      "given with --set data.eval_annotations=FILE");
  command
      ->add_option("--set", arguments->overrides,
                   "Overrides a key of the checkpoint's job for data, precision or layout: "
                   "section.key=value; repeatable")
      ->allow_extra_args(false);
  command
      ->add_option("--on-bad-image", arguments->on_bad_image,
                   "fail; or skip: leave out images that cannot be read, and count them (default: "
                   "data.on_bad_image of the checkpoint's job)")
      ->check(CLI::IsMember({"fail", "skip"}));
  command
      ->add_option("--threads", arguments->threads,
                   "Host threads per rank (default: 0, its share of the cores)")
      ->check(CLI::Range(0, 4096));
  command->add_flag("--ema", arguments->ema,
                    "Use the averages of a run with train.ema instead of the parameters");
  command->add_flag("--json", arguments->json, "Print JSON");
  command->add_option("--predictions", arguments->predictions,
                      "For classes: write a file with one JSON object per sample: picture, label, predicted, "
                      "probability. For detectors: a JSON file in COCO's format of results");
  command->add_option("--confusion", arguments->confusion, "For classes: draw the confusion matrix, as SVG");
  command->add_flag("--force", arguments->force, "Replace these files");
  command->callback([arguments, &chosen] {
    chosen = [arguments](const LaunchEnvironment& launch) { return run_eval(*arguments, launch); };
  });
}

}  // namespace trireme
