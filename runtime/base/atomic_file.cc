#include "runtime/base/atomic_file.h"

#include <unistd.h>

#include <span>
#include <string>
#include <system_error>

#include "runtime/base/error.h"
#include "runtime/base/log.h"
#include "runtime/base/private_folder.h"

namespace trireme {
namespace {

std::filesystem::path temporary_beside(const std::filesystem::path& path) {
  // A thread number, unlike a process number, also distinguishes ranks that are threads of one process.
  return path.parent_path() / fmt::format(".{}.tmp-{}", path.filename().string(), ::gettid());
}

/// Calls `write`. Its errors name the temporary file; they are rethrown with the name of the final file.
template <class Write>
auto naming(const std::filesystem::path& path, const std::filesystem::path& temporary, Write write) {
  try {
    return write();
  } catch (const Error& error) {
    std::string text = error.what();
    const std::string shown = temporary.string();
    for (std::size_t at; (at = text.find(shown)) != std::string::npos;)
      text.replace(at, shown.size(), path.string());
    ErrorFacts facts = error.facts();
    if (facts.file == shown) facts.file = path.string();
    throw error.saying(text).about(std::move(facts));
  }
}

}  // namespace

AtomicFile::AtomicFile(std::filesystem::path path) : path_(std::move(path)) {
  check_way_to_write(path_);
  std::error_code error;
  const auto status = std::filesystem::status(path_, error);
  TRIREME_CHECK(!std::filesystem::exists(status) || std::filesystem::is_regular_file(status),
                "cannot write {}: something that is not a regular file has this name", path_.string());
  const std::filesystem::path temporary = temporary_beside(path_);
  // A killed process with the same thread number may have left one.
  std::filesystem::remove(temporary, error);
  writer_ = naming(path_, temporary,
                   [&] { return std::make_unique<FileWriter>(temporary, FileWriter::Mode::kCreateNew); });
}

AtomicFile::~AtomicFile() {
  if (committed_) return;
  std::error_code error;
  std::filesystem::remove(writer_->path(), error);
  if (error)
    log_error(fmt::format("cannot remove temporary file {}: {}", writer_->path().string(), error.message()));
}

void AtomicFile::commit() {
  naming(path_, writer_->path(), [&] {
    writer_->sync();
    writer_->close();
  });
  std::error_code error;
  std::filesystem::rename(writer_->path(), path_, error);
  if (error)
    throw Error(ErrorCode::kRuntime, "cannot write {}: its new content cannot be renamed to it: {}",
                path_.string(), error.message())
        .about({.file = path_.string(), .system_error = error.value()});
  committed_ = true;
  sync_folder(path_.parent_path());
}

void write_text_file(const std::filesystem::path& path, std::string_view text) {
  AtomicFile file(path);
  naming(path, file.writer().path(), [&] { file.writer().append(std::as_bytes(std::span(text))); });
  file.commit();
}

}  // namespace trireme
