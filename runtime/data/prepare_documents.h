// Converts lines of text to labelled documents: the command `trireme data documents`.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "runtime/data/dataset_info.h"
#include "runtime/data/text_sources.h"

namespace trireme {

struct PrepareDocumentsOptions {
  std::vector<std::filesystem::path> inputs;  // files and folders (see find_text), one document per line
  std::filesystem::path output;               // folder; created if missing
  std::string tokenizer = "bytes";            // as in PrepareTextOptions
  bool labelled = true;                       // the first field of a line is its label
  double eval_fraction = 0.1;  // fraction of the documents, spread evenly; 0 writes no eval.bin
  bool json_as_text = false;   // otherwise JSON records are an error
};

struct PrepareDocumentsSummary {
  DatasetInfo info;
  TextNotes notes;
};

/// A line is `label TAB text`, or `label TAB text TAB second text` for pairs; without labels `text` or `text
/// TAB second text`. Lines end with LF, CRLF or CR, and byte order marks at their start are dropped. Empty
/// lines are skipped. Writes train.bin, train.documents, the same files for eval, the tokenizer's file and
/// dataset.json, with the labels as classes in byte order. Throws Error(kInvalidInput) naming file and line
/// of a line without label or text, and if there are fewer than two labels. `progress` is called after every
/// 1024 documents.
PrepareDocumentsSummary prepare_documents(
    const PrepareDocumentsOptions& options,
    const std::function<void(std::int64_t done, std::int64_t all)>& progress = {});

}  // namespace trireme
