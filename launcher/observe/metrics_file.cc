#include "launcher/observe/metrics_file.h"

#include <unistd.h>

#include <span>

#include "runtime/base/error.h"
#include "runtime/base/file_writer.h"
#include "runtime/base/private_folder.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

/// `path` is relative and normalised.
bool leads_out(const fs::path& path) {
  return path.empty() || *path.begin() == "..";
}

[[noreturn]] void refuse_outside(const std::string& path) {
  throw Error(
      ErrorCode::kInvalidInput,
      "log.prometheus = \"{}\" leads out of the output folder; name a file in it, or an absolute path "
      "where another folder is meant",
      path);
}

}  // namespace

void check_metrics_path(const std::string& path) {
  TRIREME_CHECK(
      fs::path(path).extension() == ".prom",
      "log.prometheus = \"{}\": the name ends in .prom, as node-exporter's collector reads no other", path);
  if (fs::path(path).is_relative() && leads_out(fs::path(path).lexically_normal())) refuse_outside(path);
}

fs::path metrics_file(const std::string& path, const fs::path& out) {
  check_metrics_path(path);
  const fs::path file = (out / path).lexically_normal();  // `path` itself if it is absolute
  check_way_to_write(file);
  std::error_code error;
  TRIREME_CHECK(fs::is_directory(file.parent_path(), error), "log.prometheus = \"{}\": there is no folder {}",
                path, file.parent_path().string());
  if (fs::path(path).is_relative()) {
    const fs::path folder = fs::canonical(file.parent_path()).lexically_relative(fs::canonical(out));
    if (leads_out(folder)) refuse_outside(path);
  }
  TRIREME_CHECK(!fs::exists(file, error) || fs::is_regular_file(file, error),
                "log.prometheus = \"{}\": {} is not a regular file", path, file.string());
  return file;
}

void write_metrics_file(const fs::path& path, std::string_view text) {
  // The collector reads only names that end in .prom, so it ignores this one.
  const fs::path temporary =
      path.parent_path() / ("." + path.filename().string() + ".tmp-" + std::to_string(getpid()));
  std::error_code error;
  // A link or file that is already there is removed, never written through.
  fs::remove(temporary, error);
  try {
    FileWriter writer(temporary, FileWriter::Mode::kCreateNew);
    writer.append(std::as_bytes(std::span(text)));
    writer.close();
  } catch (...) {
    fs::remove(temporary, error);
    throw;
  }
  fs::rename(temporary, path, error);
  if (!error) return;
  const std::string reason = error.message();
  fs::remove(temporary, error);
  throw Error(ErrorCode::kRuntime, "cannot write {}: {}", path.string(), reason);
}

}  // namespace trireme
