// Regular expressions of vocabularies in tokenizer.json: Ruby's syntax for Oniguruma, the engine of Hugging
// Face's tokenizers.
#pragma once

#include <string>
#include <string_view>

namespace trireme {

/// A PCRE2 expression that matches the same texts. The two engines differ in white space (U+180E is not white
/// space), in `\w`, `\h`, `\v`, `^`, `$`, `(?m)` and `{n,m}+`, and in the Unicode version. Throws
/// Error(kInvalidInput) with the position of an unsupported construct: references to groups, nested sets,
/// scripts other than Han.
std::string pcre_of_onig(std::string_view expression);

}  // namespace trireme
