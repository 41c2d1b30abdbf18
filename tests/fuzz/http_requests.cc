// Requests to the server of metrics and to the server of the live page, sent in pieces.
#include <arpa/inet.h>
#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <charconv>
#include <map>
#include <optional>

#include "launcher/observe/http_server.h"
#include "launcher/observe/metrics_server.h"
#include "launcher/page/watch.h"
#include "tests/fuzz/reader.h"
#include "tests/support/temporary_folder.h"

namespace trireme::fuzz {
namespace {

constexpr std::string_view kMetricsText = "trireme_step 1\n";

/// Both servers, as jobs and `trireme watch` start them.
class Servers {
 public:
  Servers()
      : watch_({run_folder()}),
        page_(page_options()),
        metrics_("127.0.0.1:0", [] { return std::string(kMetricsText); }) {}
  std::uint16_t port(bool is_page) const {
    const std::string url = is_page ? page_.url() : metrics_.url();
    return static_cast<std::uint16_t>(std::stoi(url.substr(url.rfind(':') + 1)));
  }

 private:
  static std::string run_folder() {
    testing::write_file(scratch_folder() / "served" / "metrics.jsonl", "{\"step\":1,\"loss\":1.5}\n");
    return (scratch_folder() / "served").string();
  }
  HttpServer::Options page_options() {
    HttpServer::Options options = watch_.served_at("127.0.0.1:0");
    options.nice = 0;  // the input waits for it
    return options;
  }

  Watch watch_;
  HttpServer page_;
  MetricsServer metrics_;
};

const Servers& servers() {
  static const Servers both;
  return both;
}

struct Answer {
  std::string text;
  bool is_whole = false;  // the server closed, but not because something was unread
};

class Connection {
 public:
  explicit Connection(std::uint16_t port) : fd_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const bool is_connected =
        ::connect(fd_, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
    require(is_connected, "the server lets nobody in");
  }
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;
  ~Connection() { ::close(fd_); }

  /// False if the server has closed.
  bool send(std::string_view bytes) const {
    while (!bytes.empty()) {
      const ssize_t n = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (n < 0 && (errno == EPIPE || errno == ECONNRESET)) return false;
      require(n > 0, "nothing can be sent");
      bytes.remove_prefix(static_cast<std::size_t>(n));
    }
    return true;
  }
  void end_request() const { ::shutdown(fd_, SHUT_WR); }

  /// Reads until the server closes; for a stream, its beginning.
  Answer answer() const {
    constexpr int kMaxWaitMs = 120'000;  // reached only by a server that hangs
    Answer got;
    char bytes[16384];
    for (;;) {
      pollfd watched{.fd = fd_, .events = POLLIN, .revents = 0};
      require(::poll(&watched, 1, kMaxWaitMs) == 1, "a request is neither answered nor refused");
      const ssize_t n = ::recv(fd_, bytes, sizeof bytes, 0);
      if (n < 0) return got;  // closed with bytes of the request unread
      got.is_whole = n == 0;
      if (n == 0) return got;
      got.text.append(bytes, static_cast<std::size_t>(n));
      if (got.text.find("retry: 2000\n") != std::string::npos) return got;
    }
  }

 private:
  int fd_;
};

bool equal_words(std::string_view a, std::string_view b) {
  return std::ranges::equal(
      a, b, [](unsigned char x, unsigned char y) { return std::tolower(x) == std::tolower(y); });
}

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
  return text;
}

struct Header {
  std::string_view name, value;
};

/// The values of all lines of `headers` with that name.
std::vector<std::string> values_of(const std::vector<Header>& headers, std::string_view name) {
  std::vector<std::string> values;
  for (const Header& header : headers) {
    if (equal_words(header.name, name)) values.emplace_back(header.value);
  }
  return values;
}

/// A message in the form of the standard (RFC 9112); all other messages are not parsed.
struct Message {
  std::string_view first_line;
  std::vector<Header> headers;
  std::string_view body;
};

std::optional<Message> parse_message(std::string_view text) {
  Message message;
  for (bool is_first = true;; is_first = false) {
    const std::size_t end = text.find("\r\n");
    if (end == std::string_view::npos) return std::nullopt;
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(end + 2);
    const bool is_plain = std::ranges::all_of(line, [](char c) { return c >= 0x20 && c < 0x7F; });
    if (!is_plain) return std::nullopt;
    if (is_first) {
      message.first_line = line;
      continue;
    }
    if (line.empty()) break;
    const std::size_t colon = line.find(':');
    if (colon == std::string_view::npos || colon == 0) return std::nullopt;
    const std::string_view name = line.substr(0, colon);
    const bool is_name =
        std::ranges::all_of(name, [](unsigned char c) { return std::isalnum(c) != 0 || c == '-'; });
    if (!is_name) return std::nullopt;
    message.headers.push_back({name, trimmed(line.substr(colon + 1))});
  }
  message.body = text;
  return message;
}

constexpr std::string_view kOwnHosts[] = {"localhost", "127.0.0.1", "127.0.0.1:8080", "LocalHost:1",
                                          "[::1]",     "[::1]:80",  "127.5.6.7"};
constexpr std::string_view kForeignHosts[] = {"evil.example",
                                              "localhost.evil.example",
                                              "127.0.0.1.evil.example:80",
                                              "10.0.0.1",
                                              "0.0.0.0",
                                              "[::2]:80",
                                              "127.0.0.1x",
                                              "xlocalhost",
                                              "[::ffff:10.0.0.1]",
                                              "evil:80"};
constexpr std::string_view kPaths[] = {"/",
                                       "/data",
                                       "/events",
                                       "/metrics",
                                       "/x",
                                       "/../etc/passwd",
                                       "//",
                                       "/%2e%2e/",
                                       "*",
                                       "http://evil.example/",
                                       "http://evil.example/metrics",
                                       "http://127.0.0.1/data",
                                       "HTTP://localhost:8080/metrics",
                                       "http://[::1]/x",
                                       "/data?after=5",
                                       "/events?after=1-2",
                                       "/metrics#a"};
constexpr std::string_view kOrigins[] = {"http://localhost", "http://evil.example", "null",
                                         "https://127.0.0.1", "x"};

template <class List>
bool is_one_of(std::string_view text, const List& list) {
  return std::ranges::find(list, text) != std::end(list);
}

constexpr std::string_view kScheme = "http://";

/// "a:80" of "http://a:80/b"; empty for other targets.
std::string authority_of(std::string_view target) {
  if (!equal_words(target.substr(0, kScheme.size()), kScheme)) return "";
  target.remove_prefix(kScheme.size());
  return std::string(target.substr(0, target.find_first_of("/? ")));
}

/// 0: unknown.
unsigned expected_status(std::string_view request, bool is_page) {
  const auto message = parse_message(request);
  if (!message || !message->body.empty() || request.size() > 4096) return 0;
  const std::string_view line = message->first_line;
  const std::size_t space = line.find(' '), end = line.rfind(' ');
  if (space == std::string_view::npos || end <= space || line.substr(end) != " HTTP/1.1") return 0;
  const std::string_view method = line.substr(0, space);
  std::string_view path = line.substr(space + 1, end - space - 1);
  if (!is_one_of(path, kPaths)) return 0;
  const std::string authority = authority_of(path);
  if (!authority.empty()) path.remove_prefix(kScheme.size() + authority.size());
  if (!path.starts_with('/')) return 0;
  for (const char* name : {"Content-Length", "Transfer-Encoding", "Expect", "Upgrade"}) {
    if (!values_of(message->headers, name).empty()) return 0;
  }
  constexpr std::string_view kMethods[] = {"GET", "HEAD", "DELETE", "OPTIONS", "PUT"};
  if (!is_one_of(method, kMethods)) return 0;
  const std::vector<std::string> hosts = values_of(message->headers, "Host");
  if (method != "GET" && method != "HEAD") return hosts.empty() ? 0 : 405;
  if (hosts.size() != 1) return 400;
  const std::string& host = authority.empty() ? hosts[0] : authority;
  if (is_one_of(host, kForeignHosts)) return 421;
  if (!is_one_of(host, kOwnHosts)) return 0;
  for (const std::string& origin : values_of(message->headers, "Origin")) {
    const std::size_t scheme = origin.find("://");
    if (scheme == std::string::npos || !equal_words(origin.substr(scheme + 3), host)) return 403;
  }
  const std::string_view plain = path.substr(0, path.find_first_of("?"));
  if (is_page)
    return plain == "/events"                         ? 0
           : plain == "/" || plain == "/data"         ? 200
           : path.find('%') == std::string_view::npos ? 404
                                                      : 0;
  return plain == "/metrics" ? 200 : path.find_first_of("%#") == std::string_view::npos ? 404 : 0;
}

/// As lenient as a resolver with numbers.
bool may_be_loopback(const std::string& host) {
  std::string name = host.substr(
      0, host.rfind(':') == std::string::npos || host.ends_with(']') ? std::string::npos : host.rfind(':'));
  std::erase_if(name, [](char c) { return c == '[' || c == ']'; });
  if (equal_words(name, "localhost")) return true;
  addrinfo hints{}, *found = nullptr;
  hints.ai_flags = AI_NUMERICHOST;
  if (::getaddrinfo(name.c_str(), nullptr, &hints, &found) != 0) return false;
  const bool is_v4 = found->ai_family == AF_INET;
  const bool is_loopback =
      is_v4 ? (ntohl(reinterpret_cast<const sockaddr_in*>(found->ai_addr)->sin_addr.s_addr) >> 24) == 127
            : IN6_IS_ADDR_LOOPBACK(&reinterpret_cast<const sockaddr_in6*>(found->ai_addr)->sin6_addr);
  ::freeaddrinfo(found);
  return is_loopback;
}

/// An answered request must be for this machine, for every reading of its lines. libmicrohttpd ends a value
/// at a NUL, which no browser sends.
void check_host(std::string_view request) {
  std::vector<std::string> hosts;
  for (std::size_t begin = 0; begin < request.size();) {
    const std::size_t end = std::min(request.find_first_of("\r\n", begin), request.size());
    const std::string_view line = request.substr(begin, end - begin);
    const std::size_t colon = line.find(':');
    // A target that names a host replaces the header.
    const std::size_t target = line.find(' ');
    if (begin == 0 && target != std::string_view::npos) {
      const std::string authority = authority_of(line.substr(line.find_first_not_of(' ', target)));
      if (!authority.empty()) return require(may_be_loopback(authority), "a foreign target is answered");
    }
    if (colon != std::string_view::npos && equal_words(trimmed(line.substr(0, colon)), "Host"))
      hosts.emplace_back(trimmed(line.substr(colon + 1, line.find('\0') - colon - 1)));
    begin = end + 1;
  }
  require(std::ranges::any_of(hosts, may_be_loopback), "a request to a foreign host is answered");
}

unsigned check_answer(const Answer& answer, std::string_view request) {
  const auto message = parse_message(answer.text);
  require(message.has_value(), "an answer is no message of HTTP");
  const std::string_view line = message->first_line;
  unsigned status = 0;
  require(line.starts_with("HTTP/1.") && line.size() > 12 && line[8] == ' ' && line[12] == ' ',
          "an answer has no status");
  std::from_chars(line.data() + 9, line.data() + 12, status);
  constexpr unsigned kStatuses[] = {200, 400, 403, 404, 405, 411, 413, 414,
                                    417, 421, 431, 500, 501, 503, 505};
  require(std::ranges::find(kStatuses, status) != std::end(kStatuses), "an answer has another status");
  if (status == 200) check_host(request);
  // libmicrohttpd 0.9.75 writes the header twice in some of its own refusals.
  const auto types = values_of(message->headers, "X-Content-Type-Options");
  require(status >= 400 || types == std::vector<std::string>{"nosniff"},
          "an answer lets its type be guessed");
  if (types.empty()) return status;
  const auto lengths = values_of(message->headers, "Content-Length");
  const bool is_stream = message->body.find("retry: 2000\n") != std::string_view::npos;
  require(lengths.size() <= 1 && (!is_stream || lengths.empty()), "an answer has several lengths");
  if (!answer.is_whole || is_stream || lengths.empty()) return status;
  const bool has_body = !message->body.empty();
  require(std::to_string(message->body.size()) == lengths[0] || !has_body,
          "an answer has not the length that it says");
  require(has_body || lengths[0] == "0" || request.find("HEAD") != std::string_view::npos,
          "an answer has no body");
  return status;
}

void check_is_alive(bool is_page) {
  const Connection client(servers().port(is_page));
  require(client.send(is_page ? "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"
                              : "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n"),
          "the server closes at once");
  const Answer answer = client.answer();
  require(answer.is_whole && answer.text.starts_with("HTTP/1.1 200 "), "the server does not answer any more");
  require(is_page || answer.text.ends_with("\r\n\r\n" + std::string(kMetricsText)),
          "the server answers something else");
}

int fuzz_http_requests(const std::uint8_t* data, std::size_t size) {
  const std::string_view request = as_text(data, size);
  Random random(request);
  const bool is_page = random.one_in(2);
  if (random.one_in(16)) check_is_alive(is_page);
  in_time([&] {
    const Connection client(servers().port(is_page));
    std::string_view rest = request;
    bool is_open = true;
    for (std::size_t pieces = random.below(4); pieces > 0 && is_open; --pieces) {
      const std::size_t bytes = random.below(rest.size() + 1);
      is_open = client.send(rest.substr(0, bytes));
      rest.remove_prefix(bytes);
    }
    if (is_open) client.send(rest);
    // The server closes incomplete requests only after seconds; most clients do not wait for that.
    const bool is_whole = request.find("\r\n\r\n") != std::string_view::npos;
    if (!is_whole && !random.one_in(100)) return;
    client.end_request();
    const Answer answer = client.answer();
    const unsigned expected = expected_status(request, is_page);
    const bool is_cut = !answer.is_whole && answer.text.find("\r\n\r\n") == std::string::npos;
    const unsigned status = answer.text.empty() || is_cut ? 0 : check_answer(answer, request);
    require(expected == 0 || expected == status, "a request is answered with another status");
  });
  return 0;
}

std::vector<std::string> requests() {
  return {"GET /metrics HTTP/1.1\r\nHost: localhost\r\nUser-Agent: x\r\n\r\n",
          "GET /data HTTP/1.1\r\nHost: 127.0.0.1:8080\r\nOrigin: http://127.0.0.1:8080\r\n\r\n",
          "GET /events HTTP/1.1\r\nHost: localhost\r\nLast-Event-ID: 12-34-5\r\n\r\n",
          "HEAD / HTTP/1.1\r\nHost: [::1]:80\r\nAccept: */*\r\n\r\n",
          "GET /metrics HTTP/1.1\r\nHost: evil.example\r\n\r\n",
          "PUT /data HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n\r\nhello"};
}

std::string drawn_header(Random& random) {
  constexpr std::string_view kOthers[] = {"Last-Event-ID: 18446744073709551616",
                                          "Content-Length: 5",
                                          "Content-Length: -1",
                                          "Content-Length: 99999999999999999999",
                                          "Transfer-Encoding: chunked",
                                          "Expect: 100-continue",
                                          "Connection: keep-alive",
                                          "Connection: Upgrade",
                                          "Upgrade: websocket",
                                          " folded",
                                          "\tfolded: x",
                                          "no colon",
                                          ": no name",
                                          "Cookie: a=b; Host=localhost",
                                          "X: \r",
                                          "Host : localhost",
                                          "Host"};
  const std::size_t kind = random.below(6);
  if (kind < 2) return "Host: " + std::string(random.one_of(kOwnHosts));
  if (kind == 2) return (random.one_in(2) ? "Host: " : "hOST:") + std::string(random.one_of(kForeignHosts));
  if (kind == 3) return "Origin: " + std::string(random.one_of(kOrigins));
  if (kind == 4 && random.one_in(4)) return "X-Long: " + std::string(std::size_t{1} << random.below(17), 'x');
  return std::string(random.one_of(kOthers));
}

/// Changes the first line, a header, a line ending, or the body.
void change_request(std::string& request, Random& random) {
  constexpr std::string_view kMethods[] = {"GET",     "HEAD",    "POST",  "PUT", "DELETE",
                                           "OPTIONS", "CONNECT", "TRACE", "get", "X"};
  constexpr std::string_view kVersions[] = {"HTTP/1.1", "HTTP/1.0", "HTTP/2.0", "HTTP/0.9", "HTTP/1.10", ""};
  constexpr std::string_view kEnds[] = {"\n",    "\r",   "\r\n\r\n",
                                        "\r\n ", "\n\n", std::string_view("\0\r\n", 3)};
  const std::size_t end = request.find("\r\n");
  if (end == std::string::npos) return;
  std::vector<std::size_t> ends;
  for (std::size_t at = 0; (at = request.find("\r\n", at)) != std::string::npos && ends.size() < 100; at += 2)
    ends.push_back(at);
  const std::size_t at = random.one_of(ends);
  switch (random.below(8)) {
    case 0:
    case 1:
      request.replace(0, end,
                      std::string(random.one_of(kMethods)) + " " + std::string(random.one_of(kPaths)) + " " +
                          std::string(random.one_in(2) ? "HTTP/1.1" : random.one_of(kVersions)));
      break;
    case 2:
      request.replace(at, 2, random.one_of(kEnds));
      break;
    case 3: {
      const std::size_t next = request.find("\r\n", at + 2);
      if (next != std::string::npos) request.erase(at, next - at);
      break;
    }
    case 4:
      if (request.size() < 100'000) request += request;
      break;
    default: {
      const std::size_t count = random.one_in(16) ? std::size_t{1} << random.below(10) : 1;
      const std::string header = "\r\n" + drawn_header(random);
      for (std::size_t i = 0; i < count && request.size() < (1 << 18); ++i) request.insert(end, header);
    }
  }
}

}  // namespace

const Reader kHttpRequests{"http_requests", fuzz_http_requests, requests, change_request, 5};

}  // namespace trireme::fuzz
