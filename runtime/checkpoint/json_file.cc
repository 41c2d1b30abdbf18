#include "runtime/checkpoint/json_file.h"

#include "runtime/base/error.h"
#include "runtime/base/regular_file.h"

namespace trireme {
namespace {

constexpr std::size_t kMaxBytes = std::size_t{16} << 20;

}  // namespace

nlohmann::json parse_json(std::string_view text) {
  const int nesting = json_nesting(text);
  TRIREME_CHECK(nesting <= kMaxNesting, "its JSON is nested {} levels deep, and {} are the limit", nesting,
                kMaxNesting);
  try {
    return nlohmann::json::parse(text);
  } catch (const nlohmann::json::exception& error) {
    throw Error(ErrorCode::kInvalidInput, "it is not JSON ({:.200})", error.what());
  }
}

nlohmann::json read_json_file(const std::filesystem::path& path, const char* what) {
  const std::string text = read_text_file({.path = path, .what = what, .max_bytes = kMaxBytes});
  try {
    return parse_json(text);
  } catch (const Error& error) {
    throw Error(error.code(), "{} {} is damaged: {}", what, path.string(), error.what());
  }
}

}  // namespace trireme
