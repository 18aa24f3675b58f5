// The one translation unit with the non-template half of Asio for this program.
#include <boost/asio/impl/src.hpp>
