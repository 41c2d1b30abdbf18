// The values that a key of the configuration takes: the rules that the table of keys is written with.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "launcher/config/config_keys.h"

namespace trireme {

KeyRule any();
KeyRule at_least(double least);
/// Counts are 32-bit further down: steps and samples are words of the random number generator's counter.
KeyRule count_from(std::int64_t least);
KeyRule from_to(double least, double most);
KeyRule above(double bound);
KeyRule between(double low, double high);
/// Each number of the value lies in (low, most].
KeyRule each_within(double low, double most);
/// Each number of the value lies in [least, bound).
KeyRule from_to_below(double least, double bound);
/// A string that is empty, or has something behind `prefix`.
KeyRule empty_or_after(std::string prefix, const std::string& placeholder);
KeyRule one_of(std::vector<std::string> choices);
/// A key that exists already, with the only value that this build can do.
KeyRule only(ConfigValue value, std::string missing_feature);

}  // namespace trireme
