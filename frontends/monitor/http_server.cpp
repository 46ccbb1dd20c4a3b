#include "frontends/monitor/http_server.h"

#include <fmt/format.h>

#include <array>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http.hpp>
#include <cstdint>
#include <limits>
#include <list>
#include <utility>

#include "engine/base/error.h"

namespace gemel::monitor {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
using asio::ip::tcp;
using boost::system::error_code;

constexpr std::size_t kMostHeader = 16 << 10;

// Nothing but the page's own files is loaded, nobody frames it, and no other site reads an answer.
constexpr std::pair<const char*, const char*> kHeaders[] = {
    {"Content-Security-Policy",
     "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"},
    {"X-Content-Type-Options", "nosniff"},
    {"Cross-Origin-Resource-Policy", "same-origin"},
    {"Referrer-Policy", "no-referrer"},
    {"Cache-Control", "no-store"},
};

/// One client.
struct Connection {
  beast::tcp_stream stream;
  bool is_waited_for = true;  // for its request
};

auto into(error_code& error) { return asio::redirect_error(asio::use_awaitable, error); }

}  // namespace

struct HttpServer::Impl {
  Impl(const Options& its_options, Content its_content) : options(its_options), content(std::move(its_content)) {}

  Options options;
  Content content;
  std::list<Connection*> connections;  // oldest first
  std::size_t streams = 0, unsent = 0;
  asio::io_context context{1};  // its end is that of the coroutines, which use what stands above
  tcp::acceptor acceptor{context};

  using Message = http::response<http::string_body>;
  using Request = http::request<http::empty_body>;

  asio::awaitable<void> accept() {
    for (;;) {
      error_code error;
      tcp::socket socket = co_await acceptor.async_accept(into(error));
      if (error == asio::error::operation_aborted) co_return;
      if (error) {  // no descriptor is free, say
        asio::steady_timer pause(context, std::chrono::milliseconds(50));
        co_await pause.async_wait(into(error));
        continue;
      }
      if (connections.size() >= options.most_connections && !close_one()) continue;  // it is closed
      asio::co_spawn(context, serve(std::move(socket)), asio::detached);
    }
  }

  /// Makes room: the client that has been silent for longest goes. @return false if all are being answered
  bool close_one() {
    for (Connection* c : connections)
      if (std::exchange(c->is_waited_for, false)) {
        c->stream.close();  // its coroutine ends
        return true;
      }
    return false;
  }

  asio::awaitable<void> serve(tcp::socket socket) {
    Connection c{beast::tcp_stream(std::move(socket))};
    struct Listed {
      std::list<Connection*>& all;
      std::list<Connection*>::iterator at;
      ~Listed() { all.erase(at); }
    } listed{connections, connections.insert(connections.end(), &c)};
    beast::flat_buffer buffer(2 * kMostHeader);
    for (bool goes_on = true; goes_on;) {
      http::request_parser<http::empty_body> parser;
      parser.header_limit(kMostHeader);
      parser.body_limit(std::numeric_limits<std::uint64_t>::max());  // none is read: its header tells what a request is refused for
      error_code error;
      c.is_waited_for = true;
      c.stream.expires_after(options.request_time);
      co_await http::async_read_header(c.stream, buffer, parser, into(error));
      c.is_waited_for = false;
      if (error) {
        const unsigned status = status_of(error);
        if (status == 0) co_return;
        Message refusal = message(plain(status, "the request is not understood"), false);
        co_await send(c, refusal, false);
        break;
      }
      const Request& request = parser.get();
      const bool has_body = request.has_content_length() ? request[http::field::content_length] != "0" : request.chunked();
      goes_on = request.keep_alive() && !has_body;
      const bool is_head = request.method() == http::verb::head;
      if (is_good(request, has_body) && request.target() == "/events" && !is_head) {
        if (streams < options.most_streams) {
          co_await tell(c);
          co_return;
        }
        goes_on = false;
      }
      Message out = message(response_to(request, has_body), goes_on);
      goes_on = co_await send(c, out, is_head) && goes_on;
    }
    co_await end(c);
  }

  /// Lets the last answer arrive: to close while some of the client's bytes are unread would reset the connection, and the client may lose what it was told.
  asio::awaitable<void> end(Connection& c) const {
    constexpr std::size_t kMostUnread = 1 << 20;
    error_code error;
    c.stream.socket().shutdown(tcp::socket::shutdown_send, error);
    c.is_waited_for = true;  // it goes where there are too many
    c.stream.expires_after(options.request_time);
    std::array<char, 4096> unread;
    for (std::size_t bytes = 0; !error && bytes < kMostUnread;) bytes += co_await c.stream.async_read_some(asio::buffer(unread), into(error));
  }

  /// 0: nobody is there to be told
  static unsigned status_of(const error_code& error) {
    if (error == http::error::header_limit || error == http::error::buffer_overflow) return 431;
    if (error.category() == make_error_code(http::error::bad_method).category() && error != http::error::end_of_stream && error != http::error::partial_message)
      return 400;
    return 0;
  }

  bool is_good(const Request& request, bool has_body) const { return refusal_of(request, has_body).status == 200; }

  Response refusal_of(const Request& request, bool has_body) const {
    if (request.method() != http::verb::get && request.method() != http::verb::head) return plain(405, "this is read-only; accepted: GET, HEAD");
    if (has_body) return plain(413, "a request with a body is not accepted");
    if (request.count(http::field::host) != 1) return plain(400, "a request names one host");
    const auto host = request[http::field::host];
    if (!content.accepts_host({host.data(), host.size()})) return plain(421, "this server is not known by that name");
    return {};
  }

  Response response_to(const Request& request, bool has_body) const {
    Response refusal = refusal_of(request, has_body);
    if (refusal.status != 200) return refusal;
    const auto target = request.target();
    if (target == "/events" && request.method() == http::verb::head) return {200, "text/event-stream", {}};
    if (target == "/events") return plain(503, "too many pages wait for events");
    if (unsent > options.most_unsent_bytes) return plain(503, "too many answers wait to be taken");
    try {
      return content.answer({target.data(), target.size()});
    } catch (const std::exception&) {
      return plain(500, "the answer cannot be made");
    }
  }

  static Message message(Response&& response, bool keeps_alive) {
    Message out{static_cast<http::status>(response.status), 11};
    for (const auto& [name, value] : kHeaders) out.set(name, value);
    out.set(http::field::content_type, response.type);
    if (response.status == 405) out.set(http::field::allow, "GET, HEAD");
    out.body() = std::move(response.body);
    out.prepare_payload();
    out.keep_alive(keeps_alive);
    return out;
  }

  /// @return false if the client is gone or too slow
  asio::awaitable<bool> send(Connection& c, Message& out, bool is_head) {
    struct Counted {
      std::size_t& sum;
      std::size_t bytes;
      ~Counted() { sum -= bytes; }
    } counted{unsent, out.body().size()};
    unsent += counted.bytes;
    error_code error;
    c.stream.expires_after(options.answer_time);
    http::response_serializer<http::string_body> serializer(out);
    if (is_head)
      co_await http::async_write_header(c.stream, serializer, into(error));
    else
      co_await http::async_write(c.stream, serializer, into(error));
    co_return !error;
  }

  /// Server-sent events: a version when it is new, never more than one that is not yet taken.
  asio::awaitable<void> tell(Connection& c) {
    struct Counted {
      std::size_t& sum;
      ~Counted() { --sum; }
    } counted{streams};
    ++streams;
    std::string text = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n";
    for (const auto& [name, value] : kHeaders) text += fmt::format("{}: {}\r\n", name, value);
    text += "\r\nretry: 2000\n\n";
    constexpr std::chrono::seconds kSign{15};  // of life, or a client that is gone is never noticed
    asio::steady_timer timer(context);
    auto sent = std::chrono::steady_clock::now();
    std::uint64_t told = 0;
    for (;;) {
      const auto now = std::chrono::steady_clock::now();
      if (const std::uint64_t version = content.version(); version != told) {
        text += fmt::format("data: {}\n\n", version);
        told = version;
      } else if (now - sent > kSign) {
        text += ":\n\n";
      }
      error_code error;
      if (!text.empty()) {
        c.stream.expires_after(options.answer_time);
        co_await asio::async_write(c.stream, asio::buffer(text), into(error));
        if (error) co_return;
        c.stream.expires_never();
        sent = now;
        text.clear();
      }
      timer.expires_after(options.event_every);
      co_await timer.async_wait(into(error));
      if (error) co_return;
    }
  }
};

HttpServer::HttpServer(const Options& options, Content content) : impl_(std::make_unique<Impl>(options, std::move(content))) {
  error_code error;
  const auto address = asio::ip::make_address(options.address, error);
  const auto fail = [&] {
    throw DataError(fmt::format("monitor: cannot listen at {} port {}: {}; accepted: an address of this machine, a free port, 0 for any", options.address,
                                options.port, error.message()));
  };
  if (error) fail();
  const tcp::endpoint endpoint(address, options.port);
  auto& acceptor = impl_->acceptor;
  acceptor.open(endpoint.protocol(), error);
  if (!error) acceptor.set_option(tcp::acceptor::reuse_address(true), error);
  if (!error) acceptor.bind(endpoint, error);
  if (!error) acceptor.listen(asio::socket_base::max_listen_connections, error);
  if (error) fail();
}

HttpServer::~HttpServer() = default;

std::uint16_t HttpServer::port() const { return impl_->acceptor.local_endpoint().port(); }

void HttpServer::run() {
  asio::co_spawn(impl_->context, impl_->accept(), asio::detached);
  impl_->context.run();
}

void HttpServer::stop() { impl_->context.stop(); }

}  // namespace gemel::monitor
