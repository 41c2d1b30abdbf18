#include "launcher/commands/chat_renderer.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <nlohmann/json.hpp>
#include <utility>

#include "launcher/commands/chat_script.h"
#include "runtime/base/error.h"

namespace trireme {
namespace {

using Json = nlohmann::json;

Json parse_reply(const std::string& line) {
  Json reply = Json::parse(line);
  if (reply.contains("error")) throw Error(ErrorCode::kInvalidInput, "{}", reply["error"].get<std::string>());
  return reply;
}

std::string to_text(const ChatRenderer::Request& request) {
  const ChatRenderer::Template& chat_template = request.chat_template;
  Json json{{"folder", chat_template.folder}, {"contents", nullptr},    {"remedy", chat_template.remedy},
            {"targets", request.targets},     {"files", Json::array()}, {"chats", Json::array()}};
  if (chat_template.contents) json["contents"] = *chat_template.contents;
  for (const std::filesystem::path& file : request.files) json["files"].push_back(file.string());
  for (const std::string& prompt : request.prompts) {
    Json messages = Json::array();
    if (!request.system.empty()) messages.push_back({{"role", "system"}, {"content", request.system}});
    messages.push_back({{"role", "user"}, {"content", prompt}});
    json["chats"].push_back(std::move(messages));
  }
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace

// The constructor throws after the child was started, so the destructor would not run.
ChatRenderer::ChatRenderer(const Request& request) {
  try {
    start(request);
    read_header();
  } catch (...) {
    end();
    throw;
  }
}

ChatRenderer::~ChatRenderer() {
  end();
}

void ChatRenderer::start(const Request& request) {
  const std::string text = to_text(request);
  // A file in memory: a request can be longer than an argument may be.
  const std::unique_ptr<std::FILE, Close> input(::fdopen(::memfd_create("request", MFD_CLOEXEC), "w"));
  const bool is_written = input != nullptr &&
                          std::fwrite(text.data(), 1, text.size(), input.get()) == text.size() &&
                          std::fflush(input.get()) == 0 && ::lseek(::fileno(input.get()), 0, SEEK_SET) == 0;
  TRIREME_CHECK(is_written, "cannot pass {} bytes to python3: {}", text.size(), std::strerror(errno));
  int ends[2];
  TRIREME_CHECK(::pipe2(ends, O_CLOEXEC) == 0, "cannot make a pipe to python3: {}", std::strerror(errno));
  lines_.reset(::fdopen(ends[0], "r"));
  // Isolated (-I): neither the working directory nor the environment adds modules.
  const char* arguments[] = {"python3", "-I", "-c", kChatScript, nullptr};
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_adddup2(&files, ::fileno(input.get()), 0);  // of the child
  posix_spawn_file_actions_adddup2(&files, ends[1], 1);
  const int error =
      posix_spawnp(&process_, arguments[0], &files, nullptr, const_cast<char* const*>(arguments), environ);
  posix_spawn_file_actions_destroy(&files);
  ::close(ends[1]);
  if (error != 0) process_ = -1;
  TRIREME_CHECK(error == 0, "cannot start python3, which renders chat templates: {}. Install python3-jinja2",
                std::strerror(error));
}

void ChatRenderer::read_header() {
  const auto line = read_line();
  TRIREME_CHECK(line, "python3 ended without a reply; its messages are above");
  const Json reply = parse_reply(*line);
  header_.special_tokens = reply.at("ends").get<std::vector<std::string>>();
  header_.literals = reply.at("literals").get<std::vector<std::string>>();
  header_.writes_date = reply.at("date").get<bool>();
  header_.is_legacy = reply.at("legacy").get<bool>();
  header_.end = reply.at("end").get<std::string>();
  header_.stops = reply.at("stops").get<std::vector<std::string>>();
}

std::optional<std::string> ChatRenderer::read_line() {
  char* bytes = nullptr;
  std::size_t capacity = 0;
  const ssize_t size = ::getline(&bytes, &capacity, lines_.get());
  const std::unique_ptr<char, decltype(&std::free)> owner(bytes, &std::free);
  if (size <= 0) return std::nullopt;
  return std::string(bytes, static_cast<std::size_t>(size));
}

std::optional<RenderedChat> ChatRenderer::next() {
  const auto line = read_line();
  if (line) {
    Json reply = parse_reply(*line);
    return RenderedChat{.where = reply.at("where").get<std::string>(),
                        .text = reply.at("text").get<std::string>(),
                        .targets = reply.at("spans").get<std::vector<std::array<std::size_t, 2>>>()};
  }
  int status = 0;
  ::waitpid(std::exchange(process_, -1), &status, 0);
  TRIREME_CHECK(status == 0, "python3 failed while it rendered conversations; its messages are above");
  return std::nullopt;
}

void check_prefixes(const ChatRenderer::Header& header, const std::string& folder,
                    const Tokenizer& tokenizer) {
  TRIREME_CHECK(
      !header.is_legacy || tokenizer.kind() != kSentencePieceTokenizer,
      "{}: tokenizer_config.json has \"legacy\": true, with which transformers writes a space behind "
      "each special token, and this is not computed here: set it to false, also where the model is used",
      folder);
}

void ChatRenderer::end() noexcept {
  if (process_ < 0) return;
  ::kill(process_, SIGKILL);
  ::waitpid(std::exchange(process_, -1), nullptr, 0);
}

}  // namespace trireme
