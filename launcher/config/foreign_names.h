// Names that other frameworks give to settings, and the key of ours that has the same meaning.
#pragma once

#include <span>
#include <string_view>

namespace trireme {

/// Names of PyTorch, Hugging Face's Trainer, DeepSpeed, Megatron-LM, Lightning or nanoGPT.
struct ForeignName {
  std::string_view names;  // separated by blanks; lower case, words joined by "_"
  std::string_view key;    // full name; empty: no key does this
  std::string_view hint;   // how values translate, or what to use in place of a key; may be empty
};

/// All of them, for tests.
std::span<const ForeignName> foreign_names();

/// Null: unknown. Upper case, "-" for "_" and a leading "--" make no difference.
const ForeignName* find_foreign_name(std::string_view name);

/// The section that other frameworks call `section`: "train" for "trainer". Empty: unknown.
std::string_view find_foreign_section(std::string_view section);

}  // namespace trireme
