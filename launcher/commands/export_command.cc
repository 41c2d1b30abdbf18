// trireme export CHECKPOINT --out FILE
#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "launcher/commands/commands.h"
#include "launcher/train/run_checkpoint.h"
#include "parallel/run/checkpoint_state.h"
#include "runtime/base/error.h"
#include "runtime/checkpoint/safetensors.h"

namespace trireme {
namespace {

struct ExportArguments {
  std::string checkpoint;
  std::string out;
};

/// The tensors of `model` as a file of their own, whole or not at all. Readers of the field go by "format".
void write_model(const SafetensorsReader& model, const std::filesystem::path& out) {
  const std::vector<SafetensorsEntry> entries(model.tensors().begin(), model.tensors().end());
  SafetensorsWriter writer(out, entries, std::map<std::string, std::string>{{"format", "pt"}});
  for (const SafetensorsTensor& tensor : model.tensors()) writer.append(tensor.data);
  writer.commit();
}

ExitCode run_export(const ExportArguments& arguments, const LaunchEnvironment& launch) {
  TRIREME_CHECK(launch.num_ranks == 1, "`trireme export` runs alone, not on {} ranks", launch.num_ranks);
  TRIREME_CHECK(!arguments.out.empty() && !std::filesystem::is_directory(arguments.out),
                "--out \"{}\" is not the name of a file", arguments.out);
  const Checkpoint checkpoint = open_checkpoint_or_run(arguments.checkpoint);
  const SafetensorsReader model(checkpoint.folder / kModelFile);
  write_model(model, arguments.out);
  fmt::print("{}: {} tensors of {}\n", arguments.out, model.tensors().size(), checkpoint.folder.string());
  return ExitCode::kDone;
}

}  // namespace

void add_export_command(CLI::App& app, Command& chosen) {
  auto arguments = std::make_shared<ExportArguments>();
  CLI::App* command =
      app.add_subcommand("export", "Write a checkpoint's model as a safetensors file, for other programs");
  command->add_option("CHECKPOINT", arguments->checkpoint, "A checkpoint, or the output folder of a run")
      ->required();
  command->add_option("--out", arguments->out, "The file to write; one that exists is replaced")->required();
  command->callback([arguments, &chosen] {
    chosen = [arguments](const LaunchEnvironment& launch) { return run_export(*arguments, launch); };
  });
}

}  // namespace trireme
