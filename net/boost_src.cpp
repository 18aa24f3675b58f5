// The one translation unit with the non-template halves of Asio, Beast and URL.
#include <boost/asio/impl/src.hpp>
#include <boost/beast/src.hpp>
#include <boost/url/src.hpp>
