// trireme checkpoint list RUN
// trireme checkpoint verify CHECKPOINT|RUN
// trireme checkpoint diff A B
// trireme checkpoint prune RUN --keep N
#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "launcher/commands/checkpoint_diff.h"
#include "launcher/commands/commands.h"
#include "launcher/host/standard_output.h"
#include "launcher/train/folder_lock.h"
#include "runtime/base/error.h"
#include "runtime/base/private_folder.h"
#include "runtime/checkpoint/checkpoint_name.h"
#include "runtime/checkpoint/checkpoint_store.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

/// The folder with a run's step folders.
fs::path store_of(const fs::path& path) {
  const fs::path inside = path / "checkpoints";
  const fs::path root = fs::is_directory(inside) ? inside : path;
  TRIREME_CHECK(fs::exists(path), "there is no {}", path.string());
  TRIREME_CHECK(fs::is_directory(root),
                "{} is a file: name a checkpoint, which is a folder, or the output folder of a run",
                path.string());
  return root;
}

/// Whole and damaged checkpoints of a run, oldest first; leftovers of writers are not listed.
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

/// Prints one line; true if the checkpoint is whole.
bool report(const fs::path& folder, Verify verify) {
  try {
    const Checkpoint checkpoint = open_checkpoint(folder, verify);
    std::uint64_t bytes = 0;
    for (const CheckpointFile& file : checkpoint.manifest.files) bytes += file.bytes;
    print_line(fmt::format("{}  step {}  {} file(s), {} bytes  {}", folder.string(), checkpoint.manifest.step,
                           checkpoint.manifest.files.size(), bytes,
                           verify == Verify::kChecksums ? "whole" : "sizes are right"));
    return true;
  } catch (const Error& error) {
    print_line(fmt::format("{}  damaged: {}", folder.string(), error.what()));
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

/// The checkpoint at `path`, or the newest whole one of a run.
Checkpoint checkpoint_of(const fs::path& path) {
  if (fs::exists(path / Manifest::kFileName)) return open_checkpoint(path, Verify::kChecksums);
  const auto newest = CheckpointStore(store_of(path)).latest(Verify::kChecksums);
  TRIREME_CHECK(newest.has_value(), "{} holds no whole checkpoint", path.string());
  return *newest;
}

ExitCode diff(const fs::path& a, const fs::path& b) {
  const Checkpoint of_a = checkpoint_of(a), of_b = checkpoint_of(b);
  print_line(fmt::format("{} and {}:", of_a.folder.string(), of_b.folder.string()));
  const std::vector<std::string> lines = describe_differences(of_a, of_b);
  for (const std::string& line : lines) print_line(line);
  if (lines.empty()) print_line("the same: settings, tensors and values");
  return lines.empty() ? ExitCode::kDone : ExitCode::kFailed;
}

ExitCode prune(const fs::path& path, std::int64_t keep) {
  TRIREME_CHECK(!fs::exists(path / Manifest::kFileName),
                "{} is one checkpoint: name the output folder of its run, or remove the folder itself",
                path.string());
  const fs::path store = store_of(path);
  check_folder_to_write(path);
  check_folder_to_write(store);
  const fs::path root = fs::canonical(store);
  const std::vector<fs::path> before = step_folders(root);
  TRIREME_CHECK(!before.empty(), "{} holds no checkpoint", path.string());
  const FolderLock lock(root.parent_path());  // no run may write there
  CheckpointStore(root).prune(keep, Verify::kChecksums);
  for (const fs::path& folder : before)
    print_line(fmt::format("{}  {}", folder.string(), fs::exists(folder) ? "kept" : "removed"));
  return ExitCode::kDone;
}

void add_diff(CLI::App& command, Command& chosen) {
  struct Paths {
    std::string a, b;
  };
  auto paths = std::make_shared<Paths>();
  CLI::App* one = command.add_subcommand("diff", "Compare two checkpoints; exit code 1 if they differ");
  one->add_option("A", paths->a, "A checkpoint, or the output folder of a run (its newest checkpoint)")
      ->required();
  one->add_option("B", paths->b, "The other one")->required();
  one->callback(
      [paths, &chosen] { chosen = [paths](const LaunchEnvironment&) { return diff(paths->a, paths->b); }; });
}

void add_prune(CLI::App& command, Command& chosen) {
  struct Arguments {
    std::string path;
    std::int64_t keep = 0;
  };
  auto arguments = std::make_shared<Arguments>();
  CLI::App* one = command.add_subcommand(
      "prune", "Remove all complete checkpoints except the newest; damaged ones are kept for inspection");
  one->add_option("PATH", arguments->path, "The output folder of a run that is not running")->required();
  one->add_option("--keep", arguments->keep, "Number of newest complete checkpoints to keep, 1 or more")
      ->required()
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 31));
  one->callback([arguments, &chosen] {
    chosen = [arguments](const LaunchEnvironment&) { return prune(arguments->path, arguments->keep); };
  });
}

}  // namespace

void add_checkpoint_command(CLI::App& app, Command& chosen) {
  CLI::App* command = app.add_subcommand("checkpoint", "List, verify, compare and remove checkpoints");
  command->require_subcommand(1);
  const auto add = [&](const char* name, const char* description, Verify verify) {
    auto path = std::make_shared<std::string>();
    CLI::App* one = command->add_subcommand(name, description);
    one->add_option("PATH", *path, "A checkpoint, or the output folder of a run (all of its checkpoints)")
        ->required();
    one->callback([path, verify, &chosen] {
      chosen = [path, verify](const LaunchEnvironment&) { return look_at(*path, verify); };
    });
  };
  add("list", "Show steps and bytes, comparing the files' sizes with the manifest", Verify::kSizes);
  add_diff(*command, chosen);
  add_prune(*command, chosen);
  add("verify", "Read every file, comparing checksums with the manifest", Verify::kChecksums);
}

}  // namespace trireme
