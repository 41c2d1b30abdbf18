#include "runtime/checkpoint/tensor_names.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <utility>

#include "runtime/base/error.h"

namespace trireme {
namespace {

struct Renamed {
  std::string_view old_name, new_name;
};
// Renames of the last name part. The first published checkpoints were converted from TensorFlow.
constexpr std::array<Renamed, 2> kNormParts{{{"gamma", "weight"}, {"beta", "bias"}}};

constexpr std::string_view kOuterWrapper = "module.";
constexpr std::array<std::string_view, 3> kWrappers{"_orig_mod.", "_fsdp_wrapped_module.",
                                                    "_checkpoint_wrapped_module."};

/// Finds `part` at the start of a name component, not inside one.
std::size_t find_part(const std::string& name, std::string_view part) {
  std::size_t at = name.find(part);
  while (at != std::string::npos && at > 0 && name[at - 1] != '.') at = name.find(part, at + 1);
  return at;
}

/// Removes the first wrapper. Returns false if there is none.
bool unwrap(std::string& name, std::set<std::string>& changes) {
  if (name.starts_with(kOuterWrapper)) {
    name.erase(0, kOuterWrapper.size());
    changes.insert(fmt::format("without \"{}\"", kOuterWrapper));
    return true;
  }
  for (const std::string_view wrapper : kWrappers) {
    const std::size_t at = find_part(name, wrapper);
    if (at == std::string::npos) continue;
    name.erase(at, wrapper.size());
    changes.insert(fmt::format("without \"{}\"", wrapper));
    return true;
  }
  return false;
}

}  // namespace

std::string plain_tensor_name(std::string_view stored, std::set<std::string>& changes) {
  std::string name(stored);
  while (unwrap(name, changes)) {
  }
  const std::size_t dot = name.rfind('.');
  for (const Renamed& part : kNormParts) {
    if (dot == std::string::npos || std::string_view(name).substr(dot + 1) != part.old_name) continue;
    changes.insert(fmt::format("with \"{}\" as \"{}\"", part.old_name, part.new_name));
    name.replace(dot + 1, std::string::npos, part.new_name);
    break;
  }
  return name;
}

void TensorNames::add(const std::string& stored, const std::string& plain, const std::string& place) {
  const auto [other, is_new] = stored_.emplace(plain, stored);
  TRIREME_CHECK(is_new, "{} holds the tensors '{}' and '{}', two names of one tensor: remove one of them",
                place, other->second, stored);
}

const std::string* TensorNames::find(const std::string& plain) const {
  const auto found = stored_.find(plain);
  return found == stored_.end() ? nullptr : &found->second;
}

std::vector<std::string> describe_name_changes(const std::set<std::string>& changes,
                                               const std::string& place) {
  if (changes.empty()) return {};
  return {fmt::format("{}: names of tensors are read {}", place, fmt::join(changes, ", "))};
}

}  // namespace trireme
