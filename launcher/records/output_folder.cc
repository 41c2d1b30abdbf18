#include "launcher/records/output_folder.h"

#include <fmt/core.h>
#include <unistd.h>

#include <system_error>

#include "runtime/base/disk_failure.h"
#include "runtime/base/error.h"
#include "runtime/base/private_folder.h"

namespace trireme {

namespace {

std::string trace_stem(std::optional<std::int64_t> step) {
  return step ? fmt::format("trace-{:06}", *step) : "trace";
}

}  // namespace

std::filesystem::path OutputFolder::trace_json(std::optional<std::int64_t> step) const {
  return root / (trace_stem(step) + ".json");
}

std::filesystem::path OutputFolder::trace_svg(std::optional<std::int64_t> step) const {
  return root / (trace_stem(step) + ".svg");
}

OutputFolder prepare_output_folder(const std::filesystem::path& root) {
  check_folder_to_write(root);
  std::error_code error;
  std::filesystem::create_directories(root, error);
  if (error || !std::filesystem::is_directory(root))
    throw Error(code_of_file_failure(error.value()),
                "cannot create the output folder {}: {}; choose another with --out", root.string(),
                error ? error.message() : "there is a file of that name")
        .about({.file = root.string(), .system_error = error.value()});
  // Permissions alone do not show a full disk or a read-only file system.
  const auto probe = root / fmt::format(".write-test-{}", getpid());
  try {
    write_text_file(probe, "writable\n");
  } catch (const Error& failure) {
    std::filesystem::remove(probe, error);
    throw failure.saying(fmt::format("cannot write into the output folder {}: {}; choose another with --out",
                                     root.string(), failure.what()));
  }
  std::filesystem::remove(probe, error);
  return {root};
}

RefusedFolder::RefusedFolder(std::filesystem::path root) {
  std::error_code error;
  root = root.lexically_normal();
  if (!root.has_filename()) root = root.parent_path();  // "out/" is "out"
  for (; !root.empty(); root = root.parent_path()) {
    if (std::filesystem::exists(root, error) || error) break;
    new_folders_.push_back(root);
  }
}

RefusedFolder::~RefusedFolder() {
  std::error_code error;
  try {
    if (!new_folders_.empty()) check_folder_to_write(new_folders_.front());
  } catch (const std::exception&) {  // another user created files there meanwhile
    return;
  }
  for (std::size_t i = 0; i < new_folders_.size(); ++i) {
    if (i == 0)
      std::filesystem::remove_all(new_folders_[i], error);
    else
      std::filesystem::remove(new_folders_[i], error);  // only if it is empty
  }
}

}  // namespace trireme
