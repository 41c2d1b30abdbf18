// From lines of text to documents with labels: what `trireme data documents` does.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "runtime/data/dataset_info.h"
#include "runtime/data/text_sources.h"

namespace trireme {

struct PrepareDocumentsOptions {
  std::vector<std::filesystem::path> inputs;  // files and folders of files (see find_text), a document a line
  std::filesystem::path output;               // folder; made where missing
  std::string tokenizer = "bytes";            // as in PrepareTextOptions
  bool labelled = true;                       // the first field of a line is its label
  double eval_fraction = 0.1;  // of the documents, spread evenly over them; 0 writes no eval.bin
  bool json_as_text = false;   // JSON records are refused otherwise
};

struct PrepareDocumentsSummary {
  DatasetInfo info;
  TextNotes notes;
};

/// A line is `label TAB text`, or `label TAB text TAB second text` for pairs; without labels `text` or
/// `text TAB second text`. Lines end with LF, CRLF or CR alike, and byte order marks at their beginning are
/// dropped. Empty lines are passed over. Writes
/// train.bin, train.documents, the same of eval, the tokenizer's file and dataset.json, whose classes are the
/// labels in their order as bytes. Throws Error(kInvalidInput) naming file and line of a line without label
/// or text, and where there are fewer than two labels.
PrepareDocumentsSummary prepare_documents(const PrepareDocumentsOptions& options);

}  // namespace trireme
