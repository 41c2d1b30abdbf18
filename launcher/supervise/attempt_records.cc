#include "launcher/supervise/attempt_records.h"

#include <algorithm>
#include <exception>
#include <system_error>

#include "launcher/records/record_writer.h"
#include "runtime/base/private_folder.h"
#include "runtime/base/regular_file.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kMostBytes = 1 << 20;

std::optional<RunRecord> read_record(const fs::path& path) {
  try {
    return parse_record(read_text_file({.path = path, .what = "record", .max_bytes = kMostBytes}));
  } catch (const std::exception&) {
    return std::nullopt;
  }
}

}  // namespace

void AttemptRecords::look() {
  for (const fs::path& folder : {folders_.shared, folders_.host}) {
    std::error_code error;
    for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
      const fs::path& path = entry->path();
      if (path.extension() != ".json" || path.filename().string().starts_with('.')) continue;
      if (!known_.insert(path).second) continue;
      if (auto record = read_record(path)) records_.push_back(std::move(*record));
    }
  }
}

bool AttemptRecords::take(std::string_view line) {
  const auto at = line.find(kRecordPrefix);
  if (at == std::string_view::npos) return false;
  if (auto record = parse_record(line.substr(at + kRecordPrefix.size())))
    records_.push_back(std::move(*record));
  return true;
}

bool AttemptRecords::is_doubtful(const RunRecord& record) const {
  return record.blames_silent_host() && record.reporter_host != here_ &&
         std::ranges::count(rank_hosts(), here_) > 0;
}

std::optional<RunRecord> AttemptRecords::failure() const {
  std::optional<RunRecord> found;
  const auto goes_before = [](const RunRecord& a, const RunRecord& b) {
    return a.has_culprit() != b.has_culprit() ? a.has_culprit() : a.time_ns < b.time_ns;
  };
  for (const RunRecord& record : records_) {
    if (!record.is_failure() || is_doubtful(record)) continue;
    if (!found || goes_before(record, *found)) found = record;
  }
  return found;
}

std::optional<RunRecord> AttemptRecords::doubtful_failure() const {
  std::optional<RunRecord> found;
  for (const RunRecord& record : records_) {
    if (is_doubtful(record) && (!found || record.time_ns < found->time_ns)) found = record;
  }
  if (found) found->facts.host.clear();
  return found;
}

std::optional<RunRecord> AttemptRecords::first(RunRecord::Event event) const {
  const auto found = std::ranges::find(records_, event, &RunRecord::event);
  return found == records_.end() ? std::nullopt : std::optional(*found);
}

std::vector<std::string> AttemptRecords::rank_hosts() const {
  const auto started = first(RunRecord::Event::kStarted);
  return started ? started->hosts : std::vector<std::string>();
}

void AttemptRecords::remove_host_folder() const noexcept {
  remove_private_folder(folders_.host);
}

}  // namespace trireme
