// trireme eval CHECKPOINT [--data PATH] [--set key=value]... [--on-bad-image fail|skip] [--ema] [--threads N]
// [--json] [--predictions FILE] [--confusion FILE.svg]
#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>
#include <numbers>
#include <optional>
#include <string>
#include <vector>

#include "launcher/commands/commands.h"
#include "launcher/commands/eval_config.h"
#include "launcher/commands/output_file.h"
#include "launcher/data/data_check.h"
#include "launcher/data/image_data.h"
#include "launcher/data/token_data.h"
#include "launcher/families/model_family.h"
#include "launcher/host/agreement.h"
#include "launcher/host/arithmetic.h"
#include "launcher/host/device.h"
#include "launcher/host/machine.h"
#include "launcher/host/standard_output.h"
#include "launcher/job/build.h"
#include "launcher/keys/left_out.h"
#include "launcher/render/json_text.h"
#include "launcher/report/class_report.h"
#include "launcher/report/detection_report.h"
#include "launcher/report/predictions_file.h"
#include "launcher/train/evaluation.h"
#include "launcher/train/progress.h"
#include "launcher/train/rank_session.h"
#include "launcher/train/trained_model.h"
#include "runtime/base/atomic_file.h"
#include "runtime/base/log.h"

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
  if (!arguments.on_bad_image.empty()) read_word(arguments.on_bad_image, config.data.on_bad_image);
  TRIREME_CHECK(!config.data.eval.empty() || config.data.kind == DataKind::kSynthetic,
                "the checkpoint's job has no data.eval: say what to evaluate on with --data");
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

/// The loss of a token in other units. Bits per byte do not depend on the tokenizer.
struct TextFigures {
  double perplexity;
  std::optional<double> bits_per_byte;  // if the data records the byte count of its tokens
  bool of_marked_targets = false;       // conversations: other tokens do not count
};

std::optional<TextFigures> text_figures(const JobConfig& config, const EvalMetrics& metrics) {
  if (!family_of(config.model).writes_text) return std::nullopt;
  TextFigures figures{.perplexity = std::exp(metrics.loss),
                      .bits_per_byte = std::nullopt,
                      .of_marked_targets = config.data.kind == DataKind::kChat};
  const auto prepared =
      config.data.kind == DataKind::kTokens ? find_prepared_data(config.data.eval) : std::nullopt;
  if (prepared && prepared->info.source_bytes > 0) {
    const auto tokens = static_cast<double>(prepared->info.train_tokens + prepared->info.eval_tokens);
    figures.bits_per_byte =
        metrics.loss * std::numbers::log2e * tokens / static_cast<double>(prepared->info.source_bytes);
  }
  return figures;
}

std::string describe(const TextFigures& figures) {
  std::string text = fmt::format("  perplexity {:.3f}", figures.perplexity);
  if (figures.of_marked_targets) text += " of the marked targets alone";
  if (figures.bits_per_byte) text += fmt::format("  {:.4f} bits per byte", *figures.bits_per_byte);
  return text;
}

void print(const EvalMetrics& metrics, const std::optional<TextFigures>& text,
           const std::optional<ClassReport>& classes, const std::vector<std::string>& class_names,
           std::int64_t num_left_out, const TrainedModel& model, const EvalArguments& arguments) {
  if (!arguments.json) {
    if (metrics.detection) print_text(to_text(*metrics.detection, class_names));
    if (classes) print_text(to_text(*classes));
    print_line(fmt::format("{}: {}{} over {} samples", model.folder.string(), describe_eval(metrics),
                           text ? describe(*text) : "", metrics.num_samples));
    return;
  }
  nlohmann::ordered_json json = {{"checkpoint", model.folder.string()},
                                 {"step", model.step},
                                 {"samples", metrics.num_samples},
                                 {"left_out_samples", num_left_out},
                                 {"loss", metrics.loss}};
  if (metrics.of_averages) json["weights"] = "ema";
  if (metrics.top1) json["top1"] = *metrics.top1;
  if (metrics.top5) json["top5"] = *metrics.top5;
  if (!metrics.noise_bands.empty()) json["noise_bands"] = metrics.noise_bands;
  if (metrics.detection) json.update(to_json(*metrics.detection, class_names));
  if (text) json["perplexity"] = text->perplexity;
  if (text && text->of_marked_targets) json["targets"] = "marked";
  if (metrics.exact_answers) json["exact_answers"] = *metrics.exact_answers;
  if (text && text->bits_per_byte) json["bits_per_byte"] = *text->bits_per_byte;
  if (classes) json.update(to_json(*classes));
  print_line(json_text(json));
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

ExitCode run_eval(const EvalArguments& arguments, const LaunchEnvironment& launch) {
  return run_as_rank(
      launch, {.run = [&](RankSession& session) {
        const auto& comm = session.comm();
        TrainedModel model;
        JobConfig config;
        JobData data;
        std::vector<std::string> class_names;
        std::shared_ptr<const BlockList> blocks;
        {
          const Watchdog::Scope scope = session.inside("the opening of the checkpoint and its data");
          run_stage(*comm, [&] {
            check_threads(arguments.threads, count_cores(), "--threads");
            model = open_trained_model(arguments.checkpoint, arguments.ema);
            config = eval_config(model, arguments);
            check_files(config, arguments);
            // First, because another tokenizer may have ids beyond the vocabulary.
            compare_data(Meeting::kEval, model.data, met_by(config, {}, model, arguments));
            data = open_eval_data(config, /*read_whole=*/launch.local_rank == 0);
            check_data(model.data, config, data, model, arguments);  // class names before their number
            check_classes(config, data);
            class_names = model.data.class_names;
            if (class_names.empty()) class_names = classes_of_evaluation(config, data).names;
            blocks = build_blocks(config.model);
          });
        }
        session.set_limit(config.parallel.timeout_s.seconds);
        const Watchdog::Scope scope = session.inside("the evaluation");
        const RankDevice rank =
            choose_device(config.parallel.device, launch, comm, config.parallel.timeout_s.seconds);
        check_same_arithmetic(*comm, arithmetic_of(rank.device));
        const EngineOptions options =
            eval_engine_options(config, arguments, rank.device, launch, comm->size(), *blocks);
        std::unique_ptr<Engine> engine;
        run_stage(*comm, [&] { engine = std::make_unique<Engine>(blocks, rank.comm, options); });
        run_stage(*comm, [&] { model.load(*engine, arguments.ema); });
        ClassPredictions predictions;
        std::optional<DetectionResults> detections;
        if (data.eval_set) detections.emplace(data.eval_set, data.eval->num_samples());
        const bool has_classes = counts_classes(config.model);
        EvalMetrics metrics = evaluate(*engine, {.dataset = data.eval,
                                                 .num_samples = data.eval->num_samples(),
                                                 .workers = num_data_workers(config, options.threads),
                                                 .counts_top_k = counts_top_k(config.model),
                                                 .counts_answers = config.data.kind == DataKind::kChat,
                                                 .by_noise_band = family_of(config.model).makes_pictures,
                                                 .predictions = has_classes ? &predictions : nullptr,
                                                 .detections = detections ? &*detections : nullptr});
        metrics.of_averages = arguments.ema;
        if (!std::isfinite(metrics.loss)) {  // on every rank
          throw AgreedError(ErrorCode::kRuntime,
                            fmt::format("{}: the loss is {}: the model has values that are not finite, or "
                                        "overflows in precision.mode = \"{}\"",
                                        model.folder.string(),
                                        std::isnan(metrics.loss) ? "NaN" : "infinite",  // without NaN's sign
                                        to_word(config.precision.mode)));
        }
        LeftOut left_out;
        left_out.gather(*comm, {data.eval.get()});
        std::optional<ClassReport> classes;
        if (has_classes) {
          const std::vector<ClassPrediction> all = predictions.gather(*comm);
          classes = ClassReport{ConfusionMatrix(all, config.model.classes), class_names};
          run_stage(*comm, [&] {
            if (comm->rank() != 0) return;
            if (!arguments.predictions.empty())
              write_text_file(arguments.predictions, predictions_text(all, *classes, data));
            if (!arguments.confusion.empty()) write_text_file(arguments.confusion, to_svg(*classes));
          });
        }
        if (detections && !arguments.predictions.empty()) {
          run_stage(*comm, [&] {
            if (comm->rank() == 0)
              write_text_file(arguments.predictions, json_text(detections->to_json()) + "\n");
          });
        }
        if (comm->rank() == 0) {
          print(metrics, text_figures(config, metrics), classes, class_names,
                data.eval->num_samples() - metrics.num_samples, model, arguments);
        }
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
