// Number ranges for command line options, with short messages.
#pragma once

#include <fmt/core.h>

#include <CLI/CLI.hpp>

namespace trireme {

/// Like CLI::Range, which accepts "nan" in any range and prints 1e-9 as 0.000000.
inline CLI::Validator finite_range(double least, double most) {
  const std::string range = fmt::format("from {} to {}", least, most);
  return CLI::Validator(
      [=](std::string& text) {
        double value = 0;
        const bool is_good = CLI::detail::lexical_cast(text, value) && value >= least && value <= most;
        return is_good ? std::string() : fmt::format("{} must be a number {}", text, range);
      },
      range);
}

/// A whole number from 0, which the option's type bounds. CLI::NonNegativeNumber prints the largest double.
inline CLI::Validator not_negative() {
  return CLI::Validator(
      [](std::string& text) {
        return text.starts_with('-') ? fmt::format("{} must not be negative", text) : std::string();
      },
      "from 0");
}

}  // namespace trireme
