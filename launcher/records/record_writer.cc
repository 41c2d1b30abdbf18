#include "launcher/records/record_writer.h"

#include <fmt/core.h>

#include <cstdio>
#include <exception>
#include <functional>
#include <future>
#include <memory>
#include <thread>

#include "runtime/base/atomic_file.h"
#include "runtime/base/private_folder.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

// A pipe takes a line of this size atomically, so the lines of several ranks do not mix.
constexpr std::size_t kMostMessageBytes = 2500;

/// Calls `write`, which must not throw, in a thread that may outlive this call. Returns true if `write`
/// returned true in time.
bool within(std::chrono::milliseconds patience, std::function<bool()> write) {
  auto done = std::make_shared<std::promise<bool>>();
  std::future<bool> result = done->get_future();
  std::thread([done, write = std::move(write)] { done->set_value(write()); }).detach();
  return result.wait_for(patience) == std::future_status::ready && result.get();
}

/// Returns false if the folder or the file cannot be written.
template <class Make>
bool write_file(const fs::path& folder, Make make_folder, const std::string& file, const std::string& text) {
  try {
    make_folder(folder);
    write_text_file(folder / file, text);
    return true;
  } catch (const std::exception&) {
    return false;
  }
}

/// Creates only the last folder: a removed output folder must not come back.
void make_in_output(const fs::path& folder) {
  std::error_code error;
  fs::create_directory(folder, error);
}

RunRecord cut(RunRecord record) {
  if (record.message.size() > kMostMessageBytes) record.message.resize(kMostMessageBytes);
  return record;
}

}  // namespace

RecordWriter::RecordWriter(Options options)
    : options_(std::move(options)),
      folders_(record_folders(options_.out, options_.attempt)),
      owns_output_(!options_.attempt.empty()) {}

void RecordWriter::claim_output() noexcept {
  const std::lock_guard lock(mutex_);
  std::error_code error;
  if (options_.attempt.empty() && options_.rank == 0) fs::remove_all(folders_.shared, error);
  owns_output_ = true;
}

void RecordWriter::write(RunRecord record) noexcept {
  try {
    const std::lock_guard lock(mutex_);
    if (!owns_output_) return;
    record.reporter = options_.rank;
    record.reporter_host = options_.host;
    // A watchdog watches only ranks on its own machine.
    const bool is_here = record.facts.rank == options_.rank || record.event == RunRecord::Event::kVerdict;
    if (record.facts.rank >= 0 && is_here && record.facts.host.empty()) record.facts.host = options_.host;
    const std::string json = to_json(cut(std::move(record)));
    const std::string file = fmt::format("{}-{}.json", name(record.event), options_.rank);
    bool written = within(options_.patience, [folder = folders_.shared, file, json] {
      return write_file(folder, make_in_output, file, json + "\n");
    });
    if (!written && !folders_.host.empty())
      written = write_file(folders_.host, make_private_folder, file, json + "\n");
    const bool is_seen = supervisor_host(options_.attempt) == options_.host;
    if (options_.attempt.empty() || (written && is_seen)) return;
    std::fprintf(stderr, "%s%s\n", kRecordPrefix.data(), json.c_str());
    std::fflush(stderr);
  } catch (const std::exception&) {  // a failing rank can do nothing more
  }
}

}  // namespace trireme
