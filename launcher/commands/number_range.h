// Ranges of numbers on the command line.
#pragma once

#include <CLI/CLI.hpp>
#include <cmath>

namespace trireme {

/// Like CLI::Range, which takes "nan" for a number of any range.
inline CLI::Validator finite_range(double least, double most) {
  CLI::Validator range = CLI::Range(least, most);
  return range & CLI::Validator(
                     [](std::string& text) {
                       double value = 0;
                       const bool is_number = CLI::detail::lexical_cast(text, value) && std::isfinite(value);
                       return is_number ? std::string() : "Value " + text + " is not a finite number";
                     },
                     "");
}

}  // namespace trireme
