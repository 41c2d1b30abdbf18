// Conversations rendered by the chat template of a tokenizer's folder or of a checkpoint. A child process of
// python3 with Jinja2 runs chat_template.py, which is a part of this program.
#pragma once

#include <cstdio>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/data/prepare_chat.h"
#include "runtime/data/tokenizer.h"

namespace trireme {

class ChatRenderer {
 public:
  /// The files that describe a chat template.
  struct Template {
    std::string folder;                                          // or the checkpoint, for messages
    std::optional<std::map<std::string, std::string>> contents;  // by file name; null: the folder is read
    std::string remedy = "Use the folder of a chat model, or add the file";  // if there is no template
  };
  struct Request {
    Template chat_template;
    std::vector<std::filesystem::path> files;  // JSON lines
    std::string targets;                       // of the files: "assistant", "last" or "all"
    std::vector<std::string> prompts;          // of the user; each starts a conversation
    std::string system;                        // the message before each prompt; empty: none
  };
  /// Facts about the template.
  struct Header {
    std::vector<std::string> special_tokens;  // that it needs
    std::vector<std::string> literals;        // texts such as <|user|>, which may be tokens
    bool writes_date = false;                 // the date of today
    std::string end;                          // text after an answer, such as "<|im_end|>\n"
    std::vector<std::string> stops;           // special tokens that end an answer
    bool is_legacy = false;                   // see check_prefixes()
  };

  /// Throws Error(kInvalidInput) if python3 or Jinja2 is missing, and for a folder without a valid template.
  explicit ChatRenderer(const Request& request);
  ChatRenderer(const ChatRenderer&) = delete;
  ChatRenderer& operator=(const ChatRenderer&) = delete;
  /// Ends the child.
  ~ChatRenderer();

  const Header& header() const { return header_; }
  /// The next conversation of the files, then of the prompts up to the beginning of an answer; null after the
  /// last. Throws Error(kInvalidInput) naming file and line of a
  /// conversation that cannot be rendered, or whose targets cannot be derived exactly.
  std::optional<RenderedChat> next();

 private:
  void start(const Request& request);
  void read_header();
  void end() noexcept;
  /// The next line of the child; null at its end.
  std::optional<std::string> read_line();

  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  int process_ = -1;
  std::unique_ptr<std::FILE, Close> lines_;
  Header header_;
};

/// Throws Error(kInvalidInput) if transformers would encode the text behind a control symbol of a
/// sentencepiece model in another way, with a dummy prefix: "legacy" of tokenizer_config.json is true.
void check_prefixes(const ChatRenderer::Header& header, const std::string& folder,
                    const Tokenizer& tokenizer);

}  // namespace trireme
