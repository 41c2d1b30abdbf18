// The names of a set's classes, and whether two sets mean the same by a label.
#pragma once

#include <string>
#include <vector>

namespace trireme {

struct ClassNames {
  std::string where;               // whose they are, for messages: "the training set photos/train"
  std::vector<std::string> names;  // by label, UTF-8; empty: not known
};

/// The names of folders, which may be any bytes, as UTF-8: a byte that is none becomes "\xE9". So they can be
/// written to JSON, and the same folders give the same names.
std::vector<std::string> as_utf8(const std::vector<std::string>& names);

/// Throws Error(kInvalidInput) naming the first label of another class with both names, both positions and
/// the classes that only one of them has, and `advice`. Places without names agree with any.
void check_same_classes(const ClassNames& a, const ClassNames& b, const std::string& advice);

/// `known` without the classes at its end that `data` has no label for, where the others are the same.
ClassNames first_classes(const ClassNames& known, const ClassNames& data);

/// "'cat', 'dog' and 3 more"
std::string list_some(const std::vector<std::string>& names);

}  // namespace trireme
