#include "launcher/page/run_files.h"

#include <algorithm>
#include <fstream>
#include <sstream>

#include "runtime/base/error.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

bool is_run(const fs::path& folder) {
  return file_within(folder, "metrics.jsonl") || file_within(folder, "config.toml");
}

std::string last_part(const fs::path& folder) {
  const fs::path whole = folder.lexically_normal();
  return (whole.has_filename() ? whole : whole.parent_path()).filename().string();
}

}  // namespace

std::optional<fs::path> file_within(const fs::path& folder, const std::string& name) {
  std::error_code error;
  const fs::path root = fs::canonical(folder, error);
  if (error) return std::nullopt;
  const fs::path file = fs::canonical(root / name, error);
  if (error || !fs::is_regular_file(file, error)) return std::nullopt;
  const auto [end_of_root, in_file] = std::mismatch(root.begin(), root.end(), file.begin(), file.end());
  if (end_of_root != root.end()) return std::nullopt;
  return file;
}

std::string text_within(const fs::path& folder, const std::string& name, std::size_t max_bytes) {
  const auto path = file_within(folder, name);
  std::error_code error;
  if (!path || fs::file_size(*path, error) > max_bytes || error) return {};
  std::ifstream file(*path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

std::string last_lines_within(const fs::path& folder, const std::string& name, std::size_t max_bytes) {
  const auto path = file_within(folder, name);
  std::error_code error;
  const std::uintmax_t bytes = path ? fs::file_size(*path, error) : 0;
  if (bytes == 0 || error) return {};
  std::string text(std::min<std::uintmax_t>(bytes, max_bytes), '\0');
  std::ifstream file(*path, std::ios::binary);
  file.seekg(static_cast<std::streamoff>(bytes - text.size()));
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(file.gcount()));
  if (bytes > max_bytes) {
    const std::size_t end = text.find('\n');
    text.erase(0, end == std::string::npos ? end : end + 1);
  }
  return text;
}

std::vector<fs::path> runs_at(const std::string& argument) {
  if (is_run(argument)) return {argument};
  std::vector<fs::path> inside;
  std::error_code error;
  for (fs::directory_iterator entry(argument, error), end; !error && entry != end; entry.increment(error)) {
    // A link may lead out of the folder that was given.
    std::error_code of_entry;
    if (entry->is_directory(of_entry) && !entry->is_symlink(of_entry) && is_run(entry->path()))
      inside.push_back(entry->path());
  }
  std::sort(inside.begin(), inside.end());
  return inside;
}

std::vector<fs::path> find_runs(const std::vector<std::string>& arguments, NoRuns no_runs) {
  std::vector<fs::path> runs;
  for (const std::string& argument : arguments) {
    TRIREME_CHECK(fs::is_directory(argument),
                  "there is no folder {}; name the output folder of a run (its --out), "
                  "or a folder of such folders",
                  argument);
    const std::vector<fs::path> inside = runs_at(argument);
    TRIREME_CHECK(!inside.empty() || no_runs == NoRuns::kAllowed,
                  "{} holds no run: the output folder of a run has a config.toml and a metrics.jsonl",
                  argument);
    runs.insert(runs.end(), inside.begin(), inside.end());
  }
  TRIREME_CHECK(runs.size() <= kMaxRuns,
                "{} runs were found; one page compares at most {}: name them one by one", runs.size(),
                kMaxRuns);
  return runs;
}

fs::path find_run(const std::string& argument) {
  TRIREME_CHECK(fs::is_directory(argument),
                "there is no folder {}; name the output folder of a run (its --out)", argument);
  TRIREME_CHECK(is_run(argument),
                "{} is not the output folder of a run, which has a config.toml and a metrics.jsonl",
                argument);
  return argument;
}

std::vector<std::string> display_names(const std::vector<fs::path>& folders) {
  std::vector<std::string> names;
  for (const fs::path& folder : folders) {
    std::error_code error;
    const fs::path whole = fs::canonical(folder, error);
    const std::string name = last_part(error ? folder : whole);
    const auto alike = std::count_if(folders.begin(), folders.end(), [&](const fs::path& other) {
      const fs::path path = fs::canonical(other, error);
      return last_part(error ? other : path) == name;
    });
    names.push_back(alike > 1 ? folder.string() : name);
  }
  return names;
}

}  // namespace trireme
