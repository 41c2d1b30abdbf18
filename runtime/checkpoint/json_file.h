// Small JSON files and lines, read with limits: what is nested too deeply or too large is an error, never a
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

/// Throws Error(kInvalidInput) saying what is wrong with the text: it is no JSON, nested deeper than
/// kMaxNesting, or has a name twice in one object.
nlohmann::json parse_json(std::string_view text);

/// Reads a line, or a file of a line's size, that somebody else may have written. Returns a discarded value
/// (is_discarded()) if the text is not JSON, nested deeper than kMaxNesting, or has more than kMaxItems
/// values: objects that keep their order take quadratic time.
inline constexpr std::size_t kMaxItems = 4096;
template <class Json = nlohmann::json>
Json parse_small_json(std::string_view text) {
  if (json_nesting(text) > kMaxNesting || json_items(text) > kMaxItems) return Json(Json::value_t::discarded);
  return Json::parse(text, nullptr, /*allow_exceptions=*/false);
}

/// Reads a file of at most 16 MiB. `what` names its role in messages ("checkpoint manifest"). Throws
/// Error(kInvalidInput) with role and path, also where a file cannot be read.
nlohmann::json read_json_file(const std::filesystem::path& path, const char* what);

/// The integer at `key` of an object. Throws Error(kInvalidInput) where it is none, or one that `Integer`
/// cannot hold: get() converts any number, with no defined result where it does not fit. A missing key throws
/// nlohmann's exception, as at() does.
template <std::integral Integer>
Integer read_integer(const nlohmann::json& object, const char* key) {
  const nlohmann::json& value = object.at(key);
  const bool fits = value.is_number_unsigned()
                        ? std::in_range<Integer>(value.get<std::uint64_t>())
                        : value.is_number_integer() && std::in_range<Integer>(value.get<std::int64_t>());
  TRIREME_CHECK(fits, "its \"{}\" is {:.100}, which is no integer of {} bytes", key, value.dump(),
                sizeof(Integer));
  return value.get<Integer>();
}

}  // namespace trireme
