// Class names of a data set, and the check that two sets give labels the same meaning.
#pragma once

#include <string>
#include <vector>

namespace trireme {

struct ClassNames {
  std::string where;               // for messages: "the training set photos/train"
  std::vector<std::string> names;  // by label, UTF-8; empty: unknown
};

/// Folder names, which may be any bytes, as UTF-8: each invalid byte becomes "\xE9". The result can be
/// written to JSON, and equal folders give equal names.
std::vector<std::string> as_utf8(const std::vector<std::string>& names);

/// Throws Error(kInvalidInput) if a label means different classes. The message has the first such label with
/// both names, both positions, the classes that only one set has, and `advice`. A set without names agrees
/// with any.
void check_same_classes(const ClassNames& a, const ClassNames& b, const std::string& advice);

/// Removes trailing classes of `known` for which `data` has no label, if all other classes agree.
ClassNames first_classes(const ClassNames& known, const ClassNames& data);

/// "'cat', 'dog' and 3 more"
std::string list_some(const std::vector<std::string>& names);

}  // namespace trireme
