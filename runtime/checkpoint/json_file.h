// Reads small JSON files and lines. Input that is nested too deeply or too large is an error and never a
// crash ([Note: nesting]).
#pragma once

#include <concepts>
#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string_view>

#include "runtime/base/error.h"
#include "runtime/base/nesting.h"

namespace trireme {

/// Throws Error(kInvalidInput) with the reason: invalid JSON, nesting deeper than kMaxNesting, or a repeated
/// name in an object.
nlohmann::json parse_json(std::string_view text);

/// Parses a line, or a small file, possibly written by another program. Returns a discarded value
/// (is_discarded()) if the text is not JSON, is nested deeper than kMaxNesting, or has more than kMaxItems
/// values, because reading an ordered object takes quadratic time.
inline constexpr std::size_t kMaxItems = 4096;
template <class Json = nlohmann::json>
Json parse_small_json(std::string_view text) {
  if (json_nesting(text) > kMaxNesting || json_items(text) > kMaxItems) return Json(Json::value_t::discarded);
  return Json::parse(text, nullptr, /*allow_exceptions=*/false);
}

/// Reads a file of at most 16 MiB. `what` names its role in messages ("checkpoint manifest"). Throws
/// Error(kInvalidInput) with role and path, also if the file cannot be read.
nlohmann::json read_json_file(const std::filesystem::path& path, const char* what);

/// The integer at `key` of an object. Throws Error(kInvalidInput) if the value is not an integer, or out of
/// range of `Integer`: get() would convert any number, with undefined results out of range. A missing key
/// throws nlohmann's exception, as at() does.
template <std::integral Integer>
Integer read_integer(const nlohmann::json& object, const char* key) {
  const nlohmann::json& value = object.at(key);
  const bool fits = value.is_number_unsigned()
                        ? std::in_range<Integer>(value.get<std::uint64_t>())
                        : value.is_number_integer() && std::in_range<Integer>(value.get<std::int64_t>());
  TRIREME_CHECK(fits, "its \"{}\" is {:.100}, which is not an integer of {} bytes", key, value.dump(),
                sizeof(Integer));
  return value.get<Integer>();
}

}  // namespace trireme
