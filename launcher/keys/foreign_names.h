// Names and values of settings in other frameworks, each with our key of the same meaning.
#pragma once

#include <span>
#include <string_view>

namespace trireme {

/// Names of PyTorch, Hugging Face's Trainer, DeepSpeed, Megatron-LM, Lightning or nanoGPT.
struct ForeignName {
  std::string_view names;  // separated by blanks; lower case, words joined by "_"
  std::string_view key;    // full name; empty: we have no such key
  std::string_view hint;   // how to convert values, or what to use in place of a key; may be empty
};

/// The whole table, for tests.
std::span<const ForeignName> foreign_names();

/// Null if unknown. Ignores case and a leading "--"; "-" equals "_".
const ForeignName* find_foreign_name(std::string_view name);

/// Our section for another framework's name: "train" for "trainer". Empty if unknown.
std::string_view find_foreign_section(std::string_view section);

/// Our word for another framework's value of a key: "cuda" for "gpu". Empty if unknown.
std::string_view find_foreign_word(std::string_view word);

}  // namespace trireme
