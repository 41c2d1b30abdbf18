// trireme export CHECKPOINT --out FILE, or --format hf --out FOLDER
#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "launcher/commands/commands.h"
#include "launcher/families/hf_exchange.h"
#include "launcher/train/build.h"
#include "launcher/train/run_checkpoint.h"
#include "parallel/run/checkpoint_state.h"
#include "runtime/base/error.h"
#include "runtime/checkpoint/hf_writer.h"
#include "runtime/checkpoint/safetensors_reader.h"
#include "runtime/checkpoint/safetensors_writer.h"
#include "runtime/data/tokenizer.h"

namespace trireme {
namespace {

enum class ExportFormat { kSafetensors, kHf };

const std::map<std::string, ExportFormat> kFormats{{"safetensors", ExportFormat::kSafetensors},
                                                   {"hf", ExportFormat::kHf}};
const std::map<std::string, DType> kDTypes{
    {"fp32", DType::kFloat32}, {"fp16", DType::kFloat16}, {"bf16", DType::kBFloat16}};

struct ExportArguments {
  std::string checkpoint;
  std::string out;
  std::string format = "safetensors";  // a word of kFormats
  std::string dtype = "fp32";          // of kDTypes
  bool ema = false;
};

/// The tensors of `model` as a file of their own, whole or not at all. Readers of the field go by "format".
void write_model(const SafetensorsReader& model, const std::filesystem::path& out) {
  const std::vector<SafetensorsEntry> entries(model.tensors().begin(), model.tensors().end());
  SafetensorsWriter writer(out, entries, std::map<std::string, std::string>{{"format", "pt"}});
  for (const SafetensorsTensor& tensor : model.tensors()) writer.append(tensor.data);
  writer.commit();
}

/// Beside the model, where transformers looks for it.
void copy_tokenizer(const Checkpoint& checkpoint, const std::filesystem::path& out) {
  const auto from = checkpoint.folder / tokenizer_file(kBpeTokenizer);
  if (!std::filesystem::exists(from)) return;
  std::error_code error;
  std::filesystem::copy_file(from, out / from.filename(), std::filesystem::copy_options::overwrite_existing,
                             error);
  if (error)
    throw Error(ErrorCode::kRuntime, "cannot copy {} to {}: {}", from.string(), out.string(),
                error.message());
}

void check_out(const ExportArguments& arguments, ExportFormat format) {
  TRIREME_CHECK(!arguments.out.empty(), "--out is empty");
  if (format == ExportFormat::kHf) return;
  TRIREME_CHECK(!std::filesystem::is_directory(arguments.out), "--out \"{}\" is not the name of a file",
                arguments.out);
  TRIREME_CHECK(arguments.dtype == "fp32",
                "--dtype {} is for --format hf: the names of this project go with fp32", arguments.dtype);
}

ExitCode run_export(const ExportArguments& arguments, const LaunchEnvironment& launch) {
  TRIREME_CHECK(launch.num_ranks == 1, "`trireme export` runs alone, not on {} ranks", launch.num_ranks);
  const ExportFormat format = kFormats.at(arguments.format);
  check_out(arguments, format);
  const Checkpoint checkpoint = open_checkpoint_or_run(arguments.checkpoint);
  if (arguments.ema) check_averages(checkpoint);
  const SafetensorsReader model(checkpoint.folder / (arguments.ema ? kAveragesFile : kModelFile));
  if (format == ExportFormat::kHf) {
    const JobConfig config = resolve(read_run_state(checkpoint).config);
    write_hf_folder(model, hf_model_of(config.model), kDTypes.at(arguments.dtype), arguments.out);
    copy_tokenizer(checkpoint, arguments.out);
  } else {
    write_model(model, arguments.out);
  }
  fmt::print("{}: {} tensors of {}\n", arguments.out, model.tensors().size(), checkpoint.folder.string());
  return ExitCode::kDone;
}

}  // namespace

void add_export_command(CLI::App& app, Command& chosen) {
  auto arguments = std::make_shared<ExportArguments>();
  CLI::App* command = app.add_subcommand("export", "Write a checkpoint's model for other programs");
  command->add_option("CHECKPOINT", arguments->checkpoint, "A checkpoint, or the output folder of a run")
      ->required();
  command
      ->add_option("--out", arguments->out,
                   "The file to write; one that exists is replaced. With --format hf the folder to make")
      ->required();
  command
      ->add_option("--format", arguments->format,
                   "safetensors: a file of this project's names (default); hf: config.json and "
                   "model.safetensors, for from_pretrained() of Hugging Face's transformers")
      ->check(CLI::IsMember(kFormats));
  command->add_option("--dtype", arguments->dtype, "With --format hf: fp32 (default), fp16 or bf16")
      ->check(CLI::IsMember(kDTypes));
  command->add_flag("--ema", arguments->ema, "The averages of a run with train.ema, not the parameters");
  command->callback([arguments, &chosen] {
    chosen = [arguments](const LaunchEnvironment& launch) { return run_export(*arguments, launch); };
  });
}

}  // namespace trireme
