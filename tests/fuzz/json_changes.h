// Changes of JSON that keep it JSON: values of another type or size, duplicate names, deep trees.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "tests/fuzz/random.h"

namespace trireme::fuzz {

/// Changes one value of `text`; text that is not JSON stays unchanged. `words` are JSON values with a meaning
/// to the reader.
void change_json(std::string& text, Random& random, std::span<const std::string_view> words = {});

/// The same for one of its lines.
void change_json_line(std::string& text, Random& random, std::span<const std::string_view> words = {});

}  // namespace trireme::fuzz
