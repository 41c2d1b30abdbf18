// Converts text to token shards: the command `trireme data text`.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "runtime/data/dataset_info.h"
#include "runtime/data/text_sources.h"

namespace trireme {

struct PrepareTextOptions {
  std::vector<std::filesystem::path> inputs;  // files and folders (see find_text)
  std::filesystem::path output;               // folder; created if missing
  std::string tokenizer = "bytes";            // as in load_tokenizer()
  double eval_fraction = 0.1;                 // the end of the stream, 0 <= f < 1; 0 writes no eval.bin
  bool json_as_text = false;                  // otherwise JSON records are an error (see find_text)
};

struct PrepareTextProgress {
  std::int64_t bytes_done = 0, bytes_total = 0;
  std::int64_t num_tokens = 0;  // so far
};

struct PrepareTextSummary {
  DatasetInfo info;
  TextNotes notes;
  /// False if decoding the start of the text did not give it back: the model normalises (drops line ends, for
  /// instance).
  bool lossless = true;
};

/// Writes train.bin, eval.bin, tokenizer.model (for sentencepiece) and dataset.json into `output`. The text
/// files, without byte order marks and with unchanged line ends, are joined by the tokenizer's document
/// separator. Of n tokens, the first floor(n * (1 - f)) are for training. A failure leaves no partial files;
/// results of an earlier run are replaced. `progress` is called about once per megabyte. Throws
/// Error(kInvalidInput) if an input is missing, there is no text, or the output folder is not writable.
/// Throws Error(kRuntime) if the disk is full.
PrepareTextSummary prepare_text(const PrepareTextOptions& options,
                                const std::function<void(const PrepareTextProgress&)>& progress = {});

}  // namespace trireme
