// Rules for the values that a configuration key accepts; used by the table of keys.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "launcher/keys/config_keys.h"

namespace trireme {

KeyRule any();
KeyRule at_least(double least);
/// Counts must fit 32 bits: steps and samples are words of the random number generator's counter.
KeyRule count_from(std::int64_t least);
KeyRule from_to(double least, double most);
KeyRule above(double bound);
KeyRule between(double low, double high);
/// Each number of the value is in (low, most].
KeyRule each_within(double low, double most);
/// Each number of the value is in [least, bound).
KeyRule from_to_below(double least, double bound);
/// A string that is empty, or `prefix` followed by more text.
KeyRule empty_or_after(std::string prefix, const std::string& placeholder);
KeyRule one_of(std::vector<std::string> choices);
/// A key for a planned feature, with the only value that this build supports.
KeyRule only(ConfigValue value, std::string missing_feature);

}  // namespace trireme
