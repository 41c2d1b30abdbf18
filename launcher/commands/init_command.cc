// trireme init NAME [--data DIR] [--from hf:DIR] [--out FILE] [--force]
#include <fmt/core.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "launcher/commands/commands.h"
#include "launcher/commands/output_file.h"
#include "launcher/families/hf_exchange.h"
#include "launcher/host/device.h"
#include "launcher/host/standard_output.h"
#include "launcher/job/build.h"
#include "launcher/job/job_template.h"
#include "launcher/job/memory_fit.h"
#include "launcher/keys/job_file.h"
#include "launcher/render/text_table.h"
#include "launcher/train/weights_record.h"
#include "parallel/comm/local.h"
#include "parallel/layout/model_layout.h"
#include "runtime/base/allocator.h"
#include "runtime/base/atomic_file.h"
#include "runtime/base/error.h"
#include "runtime/checkpoint/hf_labels.h"
#include "runtime/data/class_names.h"
#include "runtime/data/dataset_info.h"
#include "runtime/data/document_file.h"
#include "runtime/data/open_images.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

struct InitArguments {
  std::string name, data, from;
  std::string out = "job.toml";
  bool force = false;
};

const JobTemplate& template_of(const std::string& name) {
  const auto templates = job_templates();
  return *std::find_if(templates.begin(), templates.end(),
                       [&](const JobTemplate& job) { return job.name == name; });
}

constexpr const char* kTrainFolders[] = {"train", "train2017"};
constexpr const char* kEvalFolders[] = {"eval", "val", "valid", "test", "val2017"};

/// The folder of `names` that exists in `parent`; empty if none does.
std::string child_of(const fs::path& parent, std::span<const char* const> names) {
  for (const char* name : names) {
    if (fs::is_directory(parent / name)) return (parent / name).string();
  }
  return {};
}

/// A network that denoises has a class more than the data, which stands for "no class". A pretrained one may
/// lack it, and so guidance.
void take_picture_classes(std::int64_t classes, TemplateValues& values) {
  if (values.pretrained.empty()) {
    values.class_dropout = classes > 1;
    if (values.class_dropout) values.classes = classes + 1;
    return;
  }
  const std::int64_t known = model_of_hf_folder(values.pretrained).classes;
  values.class_dropout = known == classes + 1;
  TRIREME_CHECK(known == 0 || known == classes || values.class_dropout,
                "--data: {} has {} class folders, and the network in {} has {} classes: it continues with {} "
                "class folders, or {} and a class that stands for none",
                values.train, classes, values.pretrained, known, known, known - 1);
}

/// With a pretrained classifier, a head of its own for classes that the classifier does not know by name.
void take_classes(const JobTemplate& job, std::int64_t classes, TemplateValues& values) {
  if (job.data == TemplateData::kPictures) return take_picture_classes(classes, values);
  TRIREME_CHECK(classes > 1,
                "--data: {} has one class folder, and a classifier needs two: pictures are read from "
                "FOLDER/CLASS/PICTURE",
                values.train);
  if (values.pretrained.empty()) return;
  const std::vector<std::string> known = read_labels(HfConfig(values.pretrained)).names;
  const std::vector<std::string> named = as_utf8(open_images({.path = values.train})->class_names());
  const bool all_known = std::ranges::all_of(
      named, [&](const std::string& name) { return std::ranges::find(known, name) != known.end(); });
  if (!all_known) values.classes = classes;
}

void take_images(const JobTemplate& job, const fs::path& folder, TemplateValues& values) {
  const std::string train = child_of(folder, kTrainFolders);
  values.train = train.empty() ? folder.string() : train;
  values.eval = train.empty() ? "" : child_of(folder, kEvalFolders);
  const std::int64_t classes = count_class_folders(values.train);
  TRIREME_CHECK(classes != 0,
                "--data {}: {} has no class folders: pictures are read from FOLDER/CLASS/PICTURE",
                folder.string(), values.train);
  take_classes(job, classes, values);
}

/// COCO's annotations of `pictures`, a folder in `parent`; empty if there are none.
std::string annotations_of(const fs::path& parent, const std::string& pictures) {
  const std::string split = fs::path(pictures).filename().string();
  const std::string name = fmt::format("instances_{}.json", split);
  for (const fs::path& file :
       {parent / name, parent / "annotations" / name, fs::path(pictures) / "_annotations.coco.json"}) {
    if (fs::exists(file)) return file.string();
  }
  return {};
}

void take_boxes(const fs::path& folder, TemplateValues& values) {
  const std::string train = child_of(folder, kTrainFolders);
  values.train = train.empty() ? folder.string() : train;
  values.train_annotations = annotations_of(folder, values.train);
  values.eval = train.empty() ? "" : child_of(folder, kEvalFolders);
  if (!values.eval.empty()) values.eval_annotations = annotations_of(folder, values.eval);
  TRIREME_CHECK(
      !values.train_annotations.empty() || fs::exists(fs::path(values.train) / "classes.txt"),
      "--data {}: no annotations were found: give a folder with the pictures in train and COCO's "
      "annotations/instances_train.json, or with a text of boxes beside each picture and classes.txt",
      folder.string());
}

void check_exists(const std::string& data) {
  TRIREME_CHECK(fs::exists(data), "--data {}: there is no such folder", data);
}

/// Fills in the keys that follow from --data. Without --data, the job names a folder to be written.
void take_data(const JobTemplate& job, const InitArguments& arguments, TemplateValues& values) {
  values.train = arguments.data.empty() ? "data" : arguments.data;
  values.eval = values.train;
  if (job.data != TemplateData::kText) {
    TRIREME_CHECK(!arguments.data.empty(), "`trireme init {}` needs --data: a folder {}", job.name,
                  job.data == TemplateData::kBoxes ? "of pictures with annotations"
                                                   : "with one folder of pictures for each class");
    check_exists(arguments.data);
    if (job.data == TemplateData::kBoxes) {
      take_boxes(arguments.data, values);
    } else {
      take_images(job, arguments.data, values);
    }
  } else if (!arguments.data.empty()) {
    check_exists(arguments.data);
    if (!fs::exists(fs::path(arguments.data) / DatasetInfo::kFileName)) {
      throw Error(
          ErrorCode::kInvalidInput,
          fmt::format("--data {0}: it has no {1}. `trireme data text {0} --out data` writes tokens of its "
                      "text; then give --data data",
                      arguments.data, DatasetInfo::kFileName));
    }
    if (read_dataset_info(arguments.data).eval_tokens == 0) values.eval.clear();
    values.has_conversations = fs::exists(marks_of(fs::path(arguments.data) / "train.bin"));
  }
}

/// The command whose job trains such a model.
std::string_view template_for(std::string_view model) {
  for (const JobTemplate& job : job_templates()) {
    if (std::ranges::find(job.pretrained, model) != job.pretrained.end()) return job.name;
  }
  return {};
}

void check_pretrained(const JobTemplate& job, const std::string& from, const ModelSection& model) {
  TRIREME_CHECK(
      std::ranges::find(job.pretrained, model.name) != job.pretrained.end(),
      "--from {}: config.json describes a {}, and `trireme init {}` takes a {}: use `trireme init {}`", from,
      model.name, job.name, fmt::join(job.pretrained, " or "), template_for(model.name));
  TRIREME_CHECK(
      job.data != TemplateData::kPictures || (model.channels == 3 && model.condition_width == 0),
      "--from {}: its network denoises latents of {} channels, and `trireme init {}` reads pictures: "
      "examples/latents.toml is a job for latents",
      from, model.channels, job.name);
}

void take_pretrained(const JobTemplate& job, const InitArguments& arguments, TemplateValues& values) {
  if (arguments.from.empty()) {
    TRIREME_CHECK(!job.shape.empty(),
                  "`trireme init {}` needs --from hf:DIR: a folder of Hugging Face's transformers with a "
                  "pretrained model",
                  job.name);
    return;
  }
  TRIREME_CHECK(!job.pretrained.empty(), "--from: `trireme init {}` starts from random weights: leave it out",
                job.name);
  const std::optional<std::string> folder = hf_folder_in(arguments.from);
  TRIREME_CHECK(folder.has_value(), "--from {}: write hf: and a folder of Hugging Face's transformers",
                arguments.from);
  check_pretrained(job, arguments.from, model_of_hf_folder(*folder));
  values.pretrained = *folder;
  const fs::path preprocessor = fs::path(*folder) / kHfPreprocessorFile;
  if (job.data == TemplateData::kClasses && fs::exists(preprocessor))
    values.normalisation = image_record_of_hf(preprocessor);
}

/// A row that holds each conversation: a power of two of at least 128 tokens.
std::int64_t row_of_conversations(const fs::path& data, bool has_eval) {
  std::int64_t row = 128;
  for (const char* part : {"train.bin", "eval.bin"}) {
    if (part == std::string_view("eval.bin") && !has_eval) continue;
    const DocumentFile conversations(data / part);
    for (const Document& conversation : conversations.documents())
      while (row < conversation.num_tokens) row *= 2;
  }
  return row;
}

/// Samples that the data can fill. A model with rotary positions may train on shorter ones than it reads;
/// the others do without an evaluation.
void take_context(const JobTemplate& job, const InitArguments& arguments, TemplateValues& values) {
  if (job.data != TemplateData::kText) return;
  constexpr std::int64_t kEnough = 512, kFewest = 16;
  const ModelSection model = parse_config(job_text(job, values), "the job of `trireme init`", {}).model;
  if (values.has_conversations) {
    if (values.pretrained.empty() || model.rope_theta <= 0) return;
    values.seq_len = std::min(model.seq_len, row_of_conversations(arguments.data, !values.eval.empty()));
    return;
  }
  const DatasetInfo info = arguments.data.empty() ? DatasetInfo{} : read_dataset_info(arguments.data);
  const std::int64_t tokens = values.eval.empty() ? info.train_tokens : info.eval_tokens;
  if (!values.pretrained.empty() && model.rope_theta > 0) {
    values.seq_len = std::min(model.seq_len, kEnough);
    while (tokens > 0 && values.seq_len >= tokens && values.seq_len > kFewest) values.seq_len /= 2;
  } else if (!values.eval.empty() && !arguments.data.empty() && model.seq_len >= tokens) {
    values.eval.clear();
  }
}

struct FittingJob {
  std::string text;
  JobFit fit;
  std::int64_t num_parameters = 0;
};

/// The job with the largest micro-batch that needs at most half of the memory. Throws Error(kInvalidInput) if
/// even one sample does not fit.
FittingJob fitting_job(const JobTemplate& job, TemplateValues values, bool has_data, Device device) {
  std::vector<std::string> overrides;
  if (!has_data && values.pretrained.empty()) overrides.push_back("model.vocab=256");  // bytes
  for (values.micro_batch = kTemplateBatch / 2;; values.micro_batch /= 2) {
    FittingJob found{.text = job_text(job, values), .fit = {}};
    const JobConfig config =
        counted_on(resolve(parse_config(found.text, "the job of `trireme init`", overrides)), device.type);
    MemoryLimit limit = memory_limit(config, device, 1);
    if (values.micro_batch > 1) limit.bytes /= 2;  // other programs need memory, too
    const PlannedJob planned = planned_job(config, build_blocks(config.model), 1);
    const StepPrediction prediction = predict_step(planned.blocks, planned.options, planned.sample, 1, 0);
    found.fit = fit_memory(planned, prediction, limit);
    found.num_parameters = make_layout(*planned.blocks).num_parameters;
    if (found.fit.fits()) return found;
    if (values.micro_batch == 1) throw Error(ErrorCode::kInvalidInput, to_text(found.fit));
  }
}

ExitCode run_init(const InitArguments& arguments, const LaunchEnvironment& launch) {
  check_is_new("--out", arguments.out, arguments.force);
  check_can_be_written("--out", arguments.out);
  const JobTemplate& job = template_of(arguments.name);
  const Device device = choose_device(std::nullopt, launch, LocalWorld(1).communicator(0)).device;
  TemplateValues values{.sixteen_bits = device.type != DeviceType::kCpu};
  take_pretrained(job, arguments, values);
  take_data(job, arguments, values);
  take_context(job, arguments, values);
  const FittingJob found = fitting_job(job, values, !arguments.data.empty(), device);
  write_text_file(arguments.out, found.text);
  const std::string run = "out/" + fs::path(arguments.out).stem().string();
  print_line(fmt::format("{}: {} ({} parameters; {} of memory a step)", arguments.out, job.purpose,
                         short_count(found.num_parameters), format_bytes(found.fit.peak_bytes)));
  print_line("");
  if (arguments.data.empty()) {
    print_line(fmt::format("  trireme data text YOUR_TEXTS --out data{}",
                           values.pretrained.empty() ? "" : " --tokenizer " + values.pretrained));
  }
  print_line(fmt::format("  trireme train {} --out {}", arguments.out, run));
  return ExitCode::kDone;
}

}  // namespace

void add_init_command(CLI::App& app, Command& chosen) {
  auto arguments = std::make_shared<InitArguments>();
  CLI::App* command = app.add_subcommand("init", "Write a commented job file that fits this machine");
  std::string purposes = "What the job does";
  std::vector<std::string> names;
  for (const JobTemplate& job : job_templates()) {
    purposes += fmt::format("{} {}: {}", names.empty() ? "." : ";", job.name, job.purpose);
    names.emplace_back(job.name);
  }
  command->add_option("NAME", arguments->name, purposes)->required()->check(CLI::IsMember(names));
  command->add_option("--data", arguments->data,
                      "Folder that `trireme data text` or `trireme data chat` wrote; or, for pictures, a "
                      "folder with one folder for each class, or with train and test folders of such "
                      "folders; or, for detection, a folder with train and val, and COCO's annotations");
  command->add_option("--from", arguments->from,
                      "hf:DIR, a pretrained model in a folder of Hugging Face's transformers or diffusers");
  command->add_option("--out", arguments->out, "File to write (default: job.toml)");
  command->add_flag("--force", arguments->force, "Replace the file");
  command->callback([arguments, &chosen] {
    chosen = [arguments](const LaunchEnvironment& launch) { return run_init(*arguments, launch); };
  });
}

}  // namespace trireme
