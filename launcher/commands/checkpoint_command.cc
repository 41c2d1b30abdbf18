// trireme checkpoint list RUN
// trireme checkpoint verify CHECKPOINT|RUN
#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "launcher/commands/commands.h"
#include "runtime/base/error.h"
#include "runtime/checkpoint/checkpoint_name.h"
#include "runtime/checkpoint/checkpoint_store.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

/// The folder that holds the step folders of a run.
fs::path store_of(const fs::path& path) {
  const fs::path inside = path / "checkpoints";
  const fs::path root = fs::is_directory(inside) ? inside : path;
  TRIREME_CHECK(fs::is_directory(root), "there is no folder {}", path.string());
  return root;
}

/// Whole and damaged checkpoints of a run, oldest first; what writers left behind is none.
std::vector<fs::path> step_folders(const fs::path& root) {
  std::vector<fs::path> folders;
  for (const fs::directory_entry& entry : fs::directory_iterator(root)) {
    const auto name = parse_checkpoint_name(entry.path().filename().string());
    if (name && name->kind == CheckpointName::Kind::kFinal) folders.push_back(entry.path());
  }
  std::sort(folders.begin(), folders.end(), [](const fs::path& a, const fs::path& b) {
    return parse_checkpoint_name(a.filename().string())->step <
           parse_checkpoint_name(b.filename().string())->step;
  });
  return folders;
}

/// A line of its own; true if the checkpoint is whole.
bool report(const fs::path& folder, Verify verify) {
  try {
    const Checkpoint checkpoint = open_checkpoint(folder, verify);
    std::uint64_t bytes = 0;
    for (const CheckpointFile& file : checkpoint.manifest.files) bytes += file.bytes;
    fmt::print("{}  step {}  {} file(s), {} bytes  {}\n", folder.string(), checkpoint.manifest.step,
               checkpoint.manifest.files.size(), bytes,
               verify == Verify::kChecksums ? "whole" : "sizes are right");
    return true;
  } catch (const Error& error) {
    fmt::print("{}  damaged: {}\n", folder.string(), error.what());
    return false;
  }
}

ExitCode look_at(const fs::path& path, Verify verify) {
  std::vector<fs::path> folders;
  if (fs::exists(path / Manifest::kFileName)) {
    folders.push_back(path);
  } else {
    folders = step_folders(store_of(path));
    TRIREME_CHECK(!folders.empty(), "{} holds no checkpoint: a checkpoint is a folder step-NNNNNN with a {}",
                  path.string(), Manifest::kFileName);
  }
  bool whole = true;
  for (const fs::path& folder : folders) whole = report(folder, verify) && whole;
  return whole ? ExitCode::kDone : ExitCode::kFailed;
}

}  // namespace

void add_checkpoint_command(CLI::App& app, Command& chosen) {
  CLI::App* command = app.add_subcommand("checkpoint", "Look at checkpoints");
  command->require_subcommand(1);
  const auto add = [&](const char* name, const char* description, Verify verify) {
    auto path = std::make_shared<std::string>();
    CLI::App* one = command->add_subcommand(name, description);
    one->add_option("PATH", *path, "A checkpoint, or the output folder of a run: all of its checkpoints")
        ->required();
    one->callback([path, verify, &chosen] {
      chosen = [path, verify](const LaunchEnvironment&) { return look_at(*path, verify); };
    });
  };
  add("list", "Show steps and bytes, comparing the files' sizes with the manifest", Verify::kSizes);
  add("verify", "Read every file, comparing checksums with the manifest", Verify::kChecksums);
}

}  // namespace trireme
