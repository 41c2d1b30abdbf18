// Regular expressions as in vocabularies, and as an attacker could write them.
#pragma once

#include <string>

#include "tests/fuzz/random.h"

namespace trireme::fuzz {

/// In Oniguruma's syntax; many are refused, some take long to compile or to match.
std::string draw_pattern(Random& random);

}  // namespace trireme::fuzz
