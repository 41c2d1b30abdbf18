#include "launcher/records/record_folders.h"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <system_error>

namespace trireme {
namespace {

namespace fs = std::filesystem;

struct TagParts {
  std::string process, host, number;
};

TagParts parts_of(const std::string& tag) {
  const auto number = std::min(tag.rfind('#'), tag.size()), at = std::min(tag.find('@'), number);
  return {.process = tag.substr(0, at),
          .host = tag.substr(std::min(at + 1, number), number - std::min(at + 1, number)),
          .number = number < tag.size() ? tag.substr(number + 1) : ""};
}

}  // namespace

std::string attempt_name(const std::string& tag) {
  const TagParts parts = parts_of(tag);
  std::string name = parts.process + (parts.number.empty() ? "" : "-" + parts.number);
  std::ranges::replace_if(
      name, [](unsigned char c) { return std::isalnum(c) == 0; }, '-');
  return name;
}

std::string supervisor_host(const std::string& tag) {
  return parts_of(tag).host;
}

RecordFolders record_folders(const fs::path& out, const std::string& attempt) {
  if (attempt.empty()) return {.shared = out / "records", .host = {}};
  std::error_code error;
  const fs::path temporary = fs::temp_directory_path(error);
  const std::string name = attempt_name(attempt);
  return {
      .shared = out / "attempts" / ("records-" + name),
      .host = error ? fs::path() : temporary / fmt::format("trireme-{}", ::geteuid()) / ("records-" + name)};
}

}  // namespace trireme
