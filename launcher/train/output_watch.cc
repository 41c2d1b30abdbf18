#include "launcher/train/output_watch.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "runtime/base/error.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

FileIdentity identity_of(const fs::path& path) {
  const auto found = FileIdentity::of(path);
  if (found) return *found;
  throw Error(ErrorCode::kRuntime, "{} is gone: was it removed or renamed?", path.string());
}

}  // namespace

OutputWatch::OutputWatch(OutputFolder out) : out_(std::move(out)) {
  folder_ = identity_of(out_.root);
  metrics_ = identity_of(out_.metrics());
  fd_ = ::open(out_.root.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd_ >= 0) return;
  throw Error(ErrorCode::kRuntime, "cannot open the output folder {}: {}", out_.root.string(),
              std::strerror(errno));
}

OutputWatch::~OutputWatch() {
  ::close(fd_);
}

std::optional<OutputWatch::Loss> OutputWatch::look() const {
  const auto now = FileIdentity::of(out_.root, folder_);
  if (!now || !now->is_same_file(folder_)) return describe_lost_folder(now.has_value());
  const auto metrics = FileIdentity::of(out_.metrics(), metrics_);
  if (metrics && metrics->is_same_file(metrics_)) return std::nullopt;
  return Loss{.what = fmt::format("{} {} while the run writes it", out_.metrics().string(),
                                  describe_change(metrics_, metrics)),
              .refuge = out_.root,
              .advice = "the same command goes on, with the metrics that are there"};
}

OutputWatch::Loss OutputWatch::describe_lost_folder(bool has_successor) const {
  const std::string begin = fmt::format("the output folder {} was ", out_.root.string());
  std::error_code error;
  // The kernel reports the current name of the open folder, or its last one.
  const fs::path name = fs::read_symlink(fmt::format("/proc/self/fd/{}", fd_), error);
  const auto found = error ? std::nullopt : FileIdentity::of(name);
  if (found && found->is_same_file(folder_)) {
    return {.what = fmt::format("{}renamed to {} while the run writes it", begin, name.string()),
            .refuge = name,
            .advice = "put the folder in its place, or go on with another --out"};
  }
  if (has_successor) {
    return {.what = begin + "replaced by another while the run writes it: choose another --out"};
  }
  return {.what = begin + "removed while the run writes it",
          .refuge = out_.root,
          .advice = "the same command goes on from there"};
}

}  // namespace trireme
