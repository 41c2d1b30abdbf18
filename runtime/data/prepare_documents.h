// From lines of text to documents with labels: what `trireme data documents` does.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "runtime/data/dataset_info.h"

namespace trireme {

struct PrepareDocumentsOptions {
  std::vector<std::filesystem::path> inputs;  // files, a document a line
  std::filesystem::path output;               // folder; made where missing
  std::string tokenizer = "bytes";            // as in PrepareTextOptions
  bool labelled = true;                       // the first field of a line is its label
  double eval_fraction = 0.1;  // of the documents, spread evenly over them; 0 writes no eval.bin
};

/// A line is `label TAB text`, or `label TAB text TAB second text` for pairs; without labels `text` or
/// `text TAB second text`. Empty lines are passed over, a carriage return at a line's end, too. Writes
/// train.bin, train.documents, the same of eval, the tokenizer's file and dataset.json, whose classes are the
/// labels in their order as bytes. Throws Error(kInvalidInput) naming file and line of a line without label
/// or text, and where there are fewer than two labels.
DatasetInfo prepare_documents(const PrepareDocumentsOptions& options);

}  // namespace trireme
