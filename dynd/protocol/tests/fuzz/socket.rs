//! What must hold for any message on the socket: also the body of its fuzz target.

use dynd_protocol::{Sealer, SocketCommand, decode_responses, decode_socket_message};

pub(crate) fn check(data: &[u8]) {
    let message = String::from_utf8_lossy(data);
    match decode_socket_message(&message) {
        Ok(SocketCommand::Create { headers }) => {
            for (name, _) in headers {
                assert!(name.starts_with("x-"), "{name:?} is no header of a client's");
            }
            let _ = decode_responses(message.as_bytes(), &Sealer::new([0; 32]));
        }
        Ok(SocketCommand::Cancel | SocketCommand::Ignore) => {}
        Err(error) => assert!((400..500).contains(&error.status), "{error:?}"),
    }
}
