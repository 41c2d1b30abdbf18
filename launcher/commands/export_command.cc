// trireme export CHECKPOINT --out FILE, or --format hf [--adapters] or diffusers --out FOLDER; with --force
// onto others
#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "launcher/commands/commands.h"
#include "launcher/commands/export_tokens.h"
#include "launcher/families/diffusers_pipeline.h"
#include "launcher/families/hf_exchange.h"
#include "launcher/families/model_family.h"
#include "launcher/host/standard_output.h"
#include "launcher/job/build.h"
#include "launcher/job/lora.h"
#include "launcher/report/progress_lines.h"
#include "launcher/state/initial_weights.h"
#include "launcher/state/run_checkpoint.h"
#include "launcher/train/weights_record.h"
#include "parallel/layout/parameter_rules.h"
#include "parallel/run/checkpoint_state.h"
#include "runtime/base/atomic_file.h"
#include "runtime/base/error.h"
#include "runtime/checkpoint/hf_writer.h"
#include "runtime/checkpoint/peft_writer.h"
#include "runtime/checkpoint/safetensors_reader.h"
#include "runtime/checkpoint/safetensors_writer.h"
#include "runtime/data/tokenizer.h"

namespace trireme {
namespace {

enum class ExportFormat { kSafetensors, kHf, kDiffusers };

const std::map<std::string, ExportFormat> kFormats{{"safetensors", ExportFormat::kSafetensors},
                                                   {"hf", ExportFormat::kHf},
                                                   {"diffusers", ExportFormat::kDiffusers}};
const std::map<std::string, DType> kDTypes{
    {"fp32", DType::kFloat32}, {"fp16", DType::kFloat16}, {"bf16", DType::kBFloat16}};

struct ExportArguments {
  std::string checkpoint;
  std::string out;
  std::string format = "safetensors";  // one of kFormats
  std::string dtype = "fp32";          // of kDTypes
  bool adapters = false;               // export only the adapters, as a PEFT folder
  bool ema = false;
  bool force = false;
};

/// Marks a file written by this command, which it may replace.
constexpr const char* kWriterMetadata = "trireme.writer";
constexpr const char* kWriter = "trireme export";

/// Writes the tensors of `model` to a file, atomically. Other libraries read the key "format".
void write_model(const MergedModel& model, const Checkpoint& checkpoint, const std::filesystem::path& out) {
  const std::vector<std::string> class_names = saved_class_names(checkpoint);
  const std::vector<SafetensorsEntry> entries = model.entries();
  std::map<std::string, std::string> metadata{{"format", "pt"}, {kWriterMetadata, kWriter}};
  if (!class_names.empty()) metadata[kClassNamesMetadata] = nlohmann::json(class_names).dump();
  if (checkpoint.manifest.content.contains("config")) {  // from training
    add_data_record(read_run_state(checkpoint).data, metadata);
  }
  SafetensorsWriter writer(out, entries, metadata);
  constexpr std::uint64_t kPiece = 1 << 18;
  std::vector<float> values;
  const TellShare progress = share_lines();
  double num_written = 0;
  for (const SafetensorsEntry& entry : entries) {
    progress("writing " + out.string(), num_written++ / static_cast<double>(entries.size()));
    const SafetensorsTensor& tensor = model.file().tensor(entry.name);
    for (std::uint64_t done = 0; done < tensor.num_elems; done += values.size()) {
      values.resize(std::min(kPiece, tensor.num_elems - done));
      model.copy_floats(tensor, done, values);
      writer.append(values);
    }
  }
  writer.commit();
}

OnExisting on_existing(const ExportArguments& arguments) {
  return arguments.force ? OnExisting::kReplaceFiles : OnExisting::kRefuse;
}

/// Exports only the adapters, and other trained tensors. Returns how many tensors of the model that covers.
std::size_t write_adapters(const SafetensorsReader& model, const SavedAdapters& adapters,
                           const ModelSection& section, const ExportArguments& arguments) {
  const HfModel hf = hf_model_of(section);
  const std::vector<std::string> trained = trained_with_adapters(section);
  std::vector<std::string> whole;
  for (const SafetensorsTensor& tensor : model.tensors()) {
    const bool is_trained = std::ranges::any_of(
        trained, [&](const std::string& pattern) { return matches_pattern(pattern, tensor.name); });
    if (is_trained && !is_adapter_name(tensor.name)) whole.push_back(tensor.name);
  }
  const std::size_t count = whole.size() + 2 * adapters.layers.size();
  const std::filesystem::path base = section.init_from;
  const bool base_is_theirs = !base.empty() && std::filesystem::exists(base / kHfConfigFile);
  write_peft_folder(model,
                    {.hf = hf,
                     .adapters = adapters,
                     .trained_whole = std::move(whole),
                     .base = base_is_theirs ? section.init_from : ""},
                    kDTypes.at(arguments.dtype), {arguments.out, on_existing(arguments)});
  return count;
}

/// Writes the image settings in transformers' format. Only ViT has an image processor here.
void write_image_settings(const DataRecord& data, const ModelSection& model,
                          const std::filesystem::path& out) {
  if (!data.images || family_of(model).hf->model_types.front() != "vit") return;
  write_text_file(out / kHfPreprocessorFile, hf_preprocessor_of(*data.images).dump(2) + "\n");
}

/// False for files of other programs or commands.
bool is_exported_file(const std::filesystem::path& file) {
  if (!std::filesystem::is_regular_file(file)) return false;
  try {
    const SafetensorsReader reader(file);
    const auto writer = reader.metadata().find(kWriterMetadata);
    return writer != reader.metadata().end() && writer->second == kWriter;
  } catch (const Error&) {
    return false;  // not a safetensors file
  }
}

void check_not_there(const ExportArguments& arguments, ExportFormat format) {
  const std::filesystem::path out = arguments.out;
  if (arguments.force || !std::filesystem::exists(std::filesystem::symlink_status(out))) return;
  if (format == ExportFormat::kSafetensors) {
    TRIREME_CHECK(is_exported_file(out),
                  "--out {} is there already, and `trireme export` did not write it: choose another file, or "
                  "replace it with --force",
                  out.string());
    return;
  }
  std::error_code error;
  TRIREME_CHECK(std::filesystem::is_directory(out, error) && std::filesystem::is_empty(out, error),
                "--out {} is there already: choose another folder, or replace its files with --force",
                out.string());
}

/// --force replaces other files, but never the files of a checkpoint.
void check_no_checkpoint(const std::filesystem::path& out, ExportFormat format) {
  const auto folder =
      format == ExportFormat::kSafetensors ? std::filesystem::absolute(out).parent_path() : out;
  std::error_code error;
  TRIREME_CHECK(
      !std::filesystem::exists(out, error) || !std::filesystem::exists(folder / Manifest::kFileName, error),
      "--out {} belongs to a checkpoint, which would be damaged: choose another place", out.string());
}

/// Each library has its own families.
void check_format(const ModelSection& model, ExportFormat format) {
  const HfFormat* hf = family_of(model).hf;
  if (hf == nullptr || format == ExportFormat::kSafetensors) return;  // hf_model_of() names the families
  const bool is_diffusers = hf->library == HfLibrary::kDiffusers;
  TRIREME_CHECK(is_diffusers == (format == ExportFormat::kDiffusers),
                "a {} is a network of {}: use --format {}", model.name,
                is_diffusers ? "diffusers" : "transformers", is_diffusers ? "diffusers" : "hf");
}

/// The network in unet/, then the files of the pipeline.
void write_pipeline(const MergedModel& merged, const JobConfig& config, const ExportArguments& arguments) {
  const std::filesystem::path out = arguments.out;
  std::filesystem::create_directories(out);
  write_hf_folder(merged, hf_model_of(config.model), kDTypes.at(arguments.dtype),
                  {out / kDiffusersNetwork, on_existing(arguments)});
  write_pipeline_files(config, out);
}

void check_out(const ExportArguments& arguments, ExportFormat format) {
  TRIREME_CHECK(!arguments.out.empty(), "--out is empty");
  TRIREME_CHECK(format == ExportFormat::kHf || !arguments.adapters,
                "--adapters writes a folder of Hugging Face's PEFT: add --format hf");
  if (format == ExportFormat::kSafetensors) {
    TRIREME_CHECK(!std::filesystem::is_directory(arguments.out), "--out \"{}\" is not the name of a file",
                  arguments.out);
    TRIREME_CHECK(arguments.dtype == "fp32",
                  "--dtype {} is for --format hf and diffusers: the names of this project go with fp32",
                  arguments.dtype);
  }
  check_no_checkpoint(arguments.out, format);
  check_not_there(arguments, format);
}

ExitCode run_export(const ExportArguments& arguments, const LaunchEnvironment& launch) {
  TRIREME_CHECK(launch.num_ranks == 1, "`trireme export` runs alone, not on {} ranks", launch.num_ranks);
  const ExportFormat format = kFormats.at(arguments.format);
  check_out(arguments, format);
  const Checkpoint checkpoint = open_checkpoint_or_run(arguments.checkpoint);
  if (arguments.ema) check_averages(checkpoint);
  const SafetensorsReader model(checkpoint.folder / (arguments.ema ? kAveragesFile : kModelFile));
  const bool is_adapted = std::ranges::any_of(model.tensors(), is_adapter_name, &SafetensorsTensor::name);
  TRIREME_CHECK(is_adapted || !arguments.adapters, "--adapters: {} was trained without train.lora",
                checkpoint.folder.string());
  ModelSection section;  // of what needs it
  RunState state;
  if (is_adapted || format != ExportFormat::kSafetensors) {
    state = read_run_state(checkpoint);
    state.config = resolve(state.config);
    section = state.config.model;
    check_format(section, format);
  }
  const SavedAdapters adapters =
      is_adapted ? saved_adapters(section, *build_blocks(section)) : SavedAdapters{};
  const auto tokenizer = format == ExportFormat::kHf ? tokenizer_of_run(state, checkpoint.folder) : nullptr;
  const MergedModel merged(model, adapters);
  std::size_t num_tensors = merged.entries().size();
  if (arguments.adapters) {
    num_tensors = write_adapters(model, adapters, section, arguments);
    if (tokenizer && tokenizer->kind() == kBpeTokenizer)
      write_text_file(std::filesystem::path(arguments.out) / tokenizer_file(kBpeTokenizer),
                      tokenizer->model_text());
  } else if (format == ExportFormat::kHf) {
    HfModel hf = hf_model_of(section, saved_class_names(checkpoint));
    const bool writes_text = family_of(section).writes_text;
    if (tokenizer && writes_text) add_document_tokens(*tokenizer, state.hf_extras);
    add_extras(state.hf_extras, hf.config);
    write_hf_folder(merged, hf, kDTypes.at(arguments.dtype), {arguments.out, on_existing(arguments)},
                    [&, lines = share_lines()](double done) { lines("writing " + arguments.out, done); });
    write_hf_extras(state.hf_extras, arguments.out);
    write_image_settings(state.data, section, arguments.out);
    // Bytes have none of the special tokens that models of masked tokens need.
    if (tokenizer && (writes_text || tokenizer->kind() != kByteTokenizer))
      write_tokenizer(*tokenizer, state.hf_extras, arguments.out);
  } else if (format == ExportFormat::kDiffusers) {
    write_pipeline(merged, state.config, arguments);
  } else {
    write_model(merged, checkpoint, arguments.out);
  }
  print_line(fmt::format("{}: {} tensors of {}", arguments.out, num_tensors, checkpoint.folder.string()));
  return ExitCode::kDone;
}

}  // namespace

void add_export_command(CLI::App& app, Command& chosen) {
  auto arguments = std::make_shared<ExportArguments>();
  CLI::App* command = app.add_subcommand("export", "Write the model of a checkpoint for other programs");
  command
      ->add_option("CHECKPOINT", arguments->checkpoint,
                   "A checkpoint, or the output folder of a run (its newest checkpoint)")
      ->required();
  command
      ->add_option("--out", arguments->out,
                   "File to write; a file that this command wrote is replaced. With --format hf or "
                   "diffusers: folder to "
                   "create")
      ->required();
  command
      ->add_option("--format", arguments->format,
                   "safetensors: one file with the names of Trireme (default); hf: config.json and "
                   "model.safetensors, for from_pretrained() of Hugging Face's transformers; diffusers: a "
                   "pipeline for from_pretrained() of diffusers")
      ->check(CLI::IsMember(kFormats));
  command
      ->add_option("--dtype", arguments->dtype, "With --format hf or diffusers: fp32 (default), fp16 or bf16")
      ->check(CLI::IsMember(kDTypes));
  command->add_flag("--adapters", arguments->adapters,
                    "With --format hf: write only the low-rank adapters of train.lora, as a folder for PEFT; "
                    "otherwise they are merged into the weights");
  command->add_flag(
      "--force", arguments->force,
      "Replace a file that this command did not write; of a folder, the files with the same names");
  command->add_flag("--ema", arguments->ema,
                    "Use the averages of a run with train.ema instead of the parameters");
  command->callback([arguments, &chosen] {
    chosen = [arguments](const LaunchEnvironment& launch) { return run_export(*arguments, launch); };
  });
}

}  // namespace trireme
