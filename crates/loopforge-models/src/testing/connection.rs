//! HTTP/1.1, as little of it as a client of models needs.

use std::io::{Error, ErrorKind, Result};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::{Answer, End, Shared};

/// The longest request.
const MAX_REQUEST: usize = 64 << 20;

/// Serves one request after another.
pub(super) async fn serve(mut stream: TcpStream, shared: &Shared) -> Result<()> {
    stream.set_nodelay(true)?;
    let mut rest = Vec::new();
    while let Some((head, body)) = read(&mut stream, &mut rest).await? {
        let path = head.split_whitespace().nth(1).unwrap_or_default();
        let path = path.split('?').next().unwrap_or_default();
        let key = header(&head, "x-api-key").or_else(|| header(&head, "authorization"));
        let key = key.map(|key| key.strip_prefix("Bearer ").unwrap_or(key).to_owned());
        let answer = shared.answer(path, key, &body);
        tokio::time::sleep(answer.delay).await;
        if !send(&mut stream, &answer).await? {
            break;
        }
    }
    Ok(())
}

/// Sends an answer. False where the connection ends with it.
async fn send(stream: &mut TcpStream, answer: &Answer) -> Result<bool> {
    if answer.end == End::Silent {
        let mut byte = [0];
        let _ = stream.read(&mut byte).await?;
        return Ok(false);
    }
    let mut head = format!("HTTP/1.1 {} Status\r\ntransfer-encoding: chunked\r\n", answer.status);
    for (name, value) in &answer.headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    head.push_str("\r\n");
    stream.write_all(head.as_bytes()).await?;
    let sent = if answer.end == End::Cut { answer.parts.len() / 2 } else { answer.parts.len() };
    for part in &answer.parts[..sent] {
        stream.write_all(format!("{:x}\r\n{part}\r\n", part.len()).as_bytes()).await?;
    }
    if answer.end == End::Cut {
        return Ok(false);
    }
    stream.write_all(b"0\r\n\r\n").await?;
    Ok(true)
}

/// The head and the body of the next request; none where the client is done.
async fn read(stream: &mut TcpStream, rest: &mut Vec<u8>) -> Result<Option<(String, Vec<u8>)>> {
    let mut needed = None;
    loop {
        if needed.is_none()
            && let Some(end) = rest.windows(4).position(|window| window == b"\r\n\r\n")
        {
            let head = String::from_utf8_lossy(&rest[..end]).into_owned();
            let length: usize = header(&head, "content-length").and_then(|text| text.parse().ok()).unwrap_or(0);
            needed = Some((head, end + 4, length));
        }
        if let Some((head, start, length)) = &needed
            && rest.len() >= start + length
        {
            let body = rest[*start..start + length].to_vec();
            let head = head.clone();
            rest.drain(..start + length);
            return Ok(Some((head, body)));
        }
        if rest.len() > MAX_REQUEST {
            return Err(Error::new(ErrorKind::InvalidData, "the request is too long"));
        }
        let mut buffer = [0; 16 << 10];
        match stream.read(&mut buffer).await? {
            0 => return Ok(None),
            read => rest.extend_from_slice(&buffer[..read]),
        }
    }
}

fn header<'h>(head: &'h str, name: &str) -> Option<&'h str> {
    head.lines().find_map(|line| {
        let (key, value) = line.split_once(':')?;
        key.eq_ignore_ascii_case(name).then(|| value.trim())
    })
}
