// A folder of prepared tokens while it is written. A failure leaves no partial files, and results of an
// earlier run are replaced.
#pragma once

#include <filesystem>
#include <optional>
#include <string_view>
#include <vector>

#include "runtime/base/atomic_file.h"
#include "runtime/data/dataset_info.h"
#include "runtime/data/document_file.h"
#include "runtime/data/token_file.h"
#include "runtime/data/tokenizer.h"

namespace trireme {

class PreparedFolder {
 public:
  /// Creates the folder if missing. Throws Error(kInvalidInput) if it cannot.
  PreparedFolder(const std::filesystem::path& folder, const TokenLayout& layout);
  PreparedFolder(const PreparedFolder&) = delete;
  PreparedFolder& operator=(const PreparedFolder&) = delete;
  /// Removes the folder if this object created it and nothing was committed.
  ~PreparedFolder();

  TokenFileWriter& train() { return *train_; }
  /// Without this call there is no eval.bin.
  TokenFileWriter& eval();
  /// The marks of targets, one for each token: see marks_of(). Without these calls there are none.
  TokenFileWriter& train_marks();
  TokenFileWriter& eval_marks();
  std::int64_t num_eval_tokens() const { return eval_ ? eval_->num_tokens() : 0; }
  /// The name of the tokenizer's file; empty if it needs none.
  std::string_view model_name() const { return model_name_; }
  void save_model(const Tokenizer& tokenizer);
  /// The documents of separate texts, in the order of their tokens. Without them, the tokens are one stream.
  void set_documents(std::vector<Document> train, std::vector<Document> eval);
  void commit(const DatasetInfo& info);

 private:
  std::filesystem::path folder_;
  const TokenLayout& layout_;
  bool made_ = false;
  std::optional<TokenFileWriter> train_, eval_, train_marks_, eval_marks_;
  std::optional<AtomicFile> model_;
  std::string_view model_name_;
  std::vector<Document> train_documents_, eval_documents_;
};

/// True if document `index` is for evaluation. These are `fraction` of all documents, spread evenly.
bool is_for_evaluation(std::size_t index, double fraction);

/// Throws Error(kInvalidInput) if writing results to `output` would replace the file `source`.
void check_not_overwritten(const std::filesystem::path& source, const std::filesystem::path& output);

}  // namespace trireme
