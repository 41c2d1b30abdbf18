// Regular expressions of vocabularies, as tokenizer.json writes them: in Ruby's syntax, for Oniguruma, the
// engine of Hugging Face's tokenizers.
#pragma once

#include <string>
#include <string_view>

namespace trireme {

/// An expression of PCRE2 that matches the same texts. The two engines differ in white space (U+180E is
/// none), in `\w`, `\h`, `\v`, `^`, `$`, `(?m)` and `{n,m}+`, and in the Unicode version. Throws
/// Error(kInvalidInput) naming the place of a construct that has no translation here: references to groups,
/// sets within sets, scripts other than Han.
std::string pcre_of_onig(std::string_view expression);

}  // namespace trireme
