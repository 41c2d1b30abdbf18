#include "runtime/data/class_names.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <span>
#include <string_view>

#include "runtime/base/error.h"

namespace trireme {
namespace {

/// Bytes of the UTF-8 character at the start of `text`; 0 if invalid. Overlong forms and surrogates are
/// invalid (RFC 3629).
std::size_t character_bytes(std::string_view text) {
  const auto byte = [text](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = byte(0);
  if (first < 0x80) return 1;
  const std::size_t size = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
  if (first < 0xC2 || first > 0xF4 || text.size() < size) return 0;
  for (std::size_t i = 1; i < size; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return 0;
  }
  const bool overlong = (first == 0xE0 && byte(1) < 0xA0) || (first == 0xF0 && byte(1) < 0x90);
  const bool beyond = (first == 0xED && byte(1) > 0x9F) || (first == 0xF4 && byte(1) > 0x8F);
  return overlong || beyond ? 0 : size;
}

/// The elements of `these` that are missing in `those`, in order.
std::vector<std::string> missing_from(const std::vector<std::string>& these, std::vector<std::string> those) {
  std::ranges::sort(those);
  std::vector<std::string> missing;
  std::ranges::copy_if(these, std::back_inserter(missing),
                       [&](const std::string& name) { return !std::ranges::binary_search(those, name); });
  return missing;
}

std::string describe_label(const ClassNames& set, std::size_t label) {
  if (label < set.names.size()) return fmt::format("'{}' in {}", set.names[label], set.where);
  return fmt::format("none of the {} in {}", set.names.size(), set.where);
}

}  // namespace

std::vector<std::string> as_utf8(const std::vector<std::string>& names) {
  std::vector<std::string> texts;
  for (const std::string& name : names) {
    std::string& text = texts.emplace_back();
    for (std::string_view rest = name; !rest.empty();) {
      const std::size_t bytes = character_bytes(rest);
      text += bytes > 0 ? std::string(rest.substr(0, bytes))
                        : fmt::format("\\x{:02X}", static_cast<unsigned char>(rest.front()));
      rest.remove_prefix(std::max<std::size_t>(1, bytes));
    }
  }
  return texts;
}

std::string list_some(const std::vector<std::string>& names) {
  constexpr std::size_t kShown = 5;
  const std::size_t shown = std::min(names.size(), kShown);
  std::string text = fmt::format("'{}'", fmt::join(std::span(names).first(shown), "', '"));
  if (names.size() > shown) text += fmt::format(" and {} more", names.size() - shown);
  return text;
}

ClassNames first_classes(const ClassNames& known, const ClassNames& data) {
  ClassNames first = known;
  const bool begins_alike = data.names.size() <= known.names.size() &&
                            std::equal(data.names.begin(), data.names.end(), known.names.begin());
  if (begins_alike) first.names = data.names;
  return first;
}

void check_same_classes(const ClassNames& a, const ClassNames& b, const std::string& advice) {
  if (a.names.empty() || b.names.empty() || a.names == b.names) return;
  const auto [at, unused] = std::ranges::mismatch(a.names, b.names);
  const auto label = static_cast<std::size_t>(at - a.names.begin());
  std::string text = fmt::format("the classes differ: label {} is {} and {}", label, describe_label(a, label),
                                 describe_label(b, label));
  const auto only_a = missing_from(a.names, b.names), only_b = missing_from(b.names, a.names);
  if (!only_a.empty()) text += fmt::format("; only in {}: {}", a.where, list_some(only_a));
  if (!only_b.empty()) text += fmt::format("; only in {}: {}", b.where, list_some(only_b));
  throw Error(ErrorCode::kInvalidInput, text + ". " + advice);
}

}  // namespace trireme
