//! Object stores and tier servers from the command line, as origins: servers of others, and what is
//! none.

mod azure;
mod google;
mod http;
mod place;
mod s3;
mod sending;
mod shop;
mod tier;
mod wrong;
